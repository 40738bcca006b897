// Going on after a rank has died, from memory: with no disk, and no step lost.
//
// With LaunchOptions::hot_restart shards and optimizer state lie in memory that the launcher holds. A rank that is
// killed leaves them there, and the ranks that are forked in its place take them over:
//
//   fsdp::Checkpoint state{.model = &sharded, .optimizer = &optimizer};
//   if (auto left = fsdp::resume_hot(state)) step = left->step;
//   else if (auto loaded = fsdp::load_latest_checkpoint("run", state)) step = loaded->step;
//   for (; step < steps; ++step) {
//     fsdp::hot_checkpoint({.model = &sharded, .optimizer = &optimizer, .step = step});
//     ...  // forward, backward, step, zero_grad
//   }
//
// From the first write of an optimizer's step until the next `hot_checkpoint` a rank's state is not whole: a job of
// which a rank is killed then goes on from a checkpoint, and the launcher says so. The same holds after a write to
// `sharded.shards()`, and after a call of `optimizer.state()`, because its tensors may be written: to write them after
// a later `hot_checkpoint`, call `optimizer.state()` again. docs/failures.md has the cases.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "fsdp/checkpoint.h"

namespace fsdp {

// The state is whole, after `checkpoint.step` steps. Copies nothing but the notes, the states of generators, each
// parameter's numbers, such as its step count, and on rank 0 the module's buffers. One model of a job, with one
// optimizer, is held so. Does nothing without LaunchOptions::hot_restart. Every rank calls it at the same place, and it
// waits for none of them. Throws `Error` for a state that lies elsewhere: that of an optimizer of LibTorch's.
void hot_checkpoint(const Checkpoint& checkpoint);

struct HotState {
  int64_t step = 0;                               // steps done
  std::map<std::string, std::string> notes = {};  // this rank's own
};

// Takes over what the ranks before this one left, into the model, the optimizer and the generators, if that is whole:
// the state of the last `hot_checkpoint`, to the bit. None: there is nothing, and all is as it was. The memory of both
// is there until it returns. The same on every rank. A collective. Throws `Error` for a model or an optimizer that
// differ from those before.
std::optional<HotState> resume_hot(const Checkpoint& checkpoint);

}  // namespace fsdp
