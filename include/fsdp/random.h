// Random numbers that depend only on a micro-batch's number, not on its rank or on earlier draws.
#pragma once

#include <cstdint>

namespace fsdp {

// Seeds the default generators of the CPU and of all GPUs of this process for the forward pass of one micro-batch. Call
// it on every rank before each forward pass that draws numbers, for example for dropout. `micro_batch` numbers the
// micro-batches of the step over all ranks:
//
//   const int64_t number = round * world.size() + world.rank();
//   fsdp::seed_micro_batch(seed, step, number);
//   loss_of(batch_of(step, number)).backward();
//
// Then a step draws the same numbers on any number of ranks, and in any order. A loop that resumes from a checkpoint
// draws the same numbers as without the stop, so no generator's state has to be saved. A recomputed pass draws its
// numbers again (activation_checkpoint). Numbers of neighbouring seeds, steps and micro-batches are independent:
// splitmix64 mixes the three (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
// Call it from any thread, but not while another thread draws.
void seed_micro_batch(uint64_t seed, int64_t step, int64_t micro_batch);

}  // namespace fsdp
