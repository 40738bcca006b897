// Random numbers that depend on a micro-batch's number, and neither on the rank that runs it nor on what was drawn
// before.
#pragma once

#include <cstdint>

namespace fsdp {

// Seeds the default generators, that of the CPU and those of all GPUs that this process sees, for the forward pass of
// one micro-batch. Call it on every rank before each forward pass that draws numbers, dropout's for one, with the
// number of the micro-batch among those of the step, of all ranks together:
//
//   const int64_t number = round * world.size() + world.rank();
//   fsdp::seed_micro_batch(seed, step, number);
//   loss_of(batch_of(step, number)).backward();
//
// Then a step draws the same on any number of ranks, and in any order; a loop that goes on from a checkpoint draws what
// it would have drawn, and no state of a generator has to be saved. A pass that is recomputed draws its numbers again
// (activation_checkpoint). Neighbouring seeds, steps and micro-batches draw numbers that have nothing in common: the
// three are mixed by splitmix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
// From any thread; not while another one draws.
void seed_micro_batch(uint64_t seed, int64_t step, int64_t micro_batch);

}  // namespace fsdp
