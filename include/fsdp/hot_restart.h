// Restart after the death of a rank, from memory: without a disk, and without losing a step.
//
// With LaunchOptions::hot_restart, shards and optimizer state lie in memory that the launcher holds. If a rank is
// killed, the memory stays, and the newly forked ranks use it:
//
//   fsdp::Checkpoint state{.model = &sharded, .optimizer = &optimizer};
//   if (auto left = fsdp::resume_hot(state)) step = left->step;
//   else if (auto loaded = fsdp::load_latest_checkpoint("run", state)) step = loaded->step;
//   for (; step < steps; ++step) {
//     fsdp::hot_checkpoint({.model = &sharded, .optimizer = &optimizer, .step = step});
//     ...  // forward, backward, step, zero_grad
//   }
//
// From the first write of an optimizer's step until the next `hot_checkpoint`, a rank's state is not whole. If a rank
// is killed then, the job continues from a checkpoint, and the launcher prints that. The same holds after a write to
// `sharded.shards()`. It also holds after a call of `optimizer.state()`, because the caller may write to its tensors.
// To write them after a later `hot_checkpoint`, call `optimizer.state()` again. docs/failures.md has the cases.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "fsdp/checkpoint.h"

namespace fsdp {

// Marks the state as whole, after `checkpoint.step` steps. Copies only the notes, the generators' states, each
// parameter's numbers (such as its step count), and on rank 0 the module's buffers. A job can hold one model so, with
// one optimizer. Without LaunchOptions::hot_restart this does nothing. Every rank calls it at the same place, and waits
// for none. Throws `Error` for state outside that memory, for example of a LibTorch optimizer.
void hot_checkpoint(const Checkpoint& checkpoint);

// The step and the notes that `resume_hot` found.
struct HotState {
  int64_t step = 0;                               // steps done
  std::map<std::string, std::string> notes = {};  // this rank's own
};

// Restores the state of the last `hot_checkpoint`, to the bit, into the model, the optimizer and the generators, if the
// ranks before left it whole. Returns nothing, and changes nothing, if there is no such state. Until it returns, old
// and new memory exist together. The result is the same on every rank. A collective. Throws `Error` if the model or the
// optimizer differs from the one before.
std::optional<HotState> resume_hot(const Checkpoint& checkpoint);

}  // namespace fsdp
