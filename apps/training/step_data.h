// The data and the random numbers of a step: both follow from numbers in the job, and not from the ranks.
#pragma once

#include "data/batch.h"
#include "training/training.h"

namespace trainer {

// Micro-batches are dealt out to the data ranks in turn. In the last round some of them may have none.
int64_t rounds_of(const Training& training);

// A micro-batch of the whole job, by its number in the step.
data::Batch read_micro_batch(const Training& training, int64_t steps_done, int64_t number);

// True if passes draw random numbers.
bool has_dropout(const models::ModelConfig& model);

// Seeds the default generators for a step, and returns the number that a fsdp::Pipeline would draw for it. Its passes
// seed them by this number, the micro-batch and the block.
uint64_t draw_number_of_step(const RunOptions& options, int64_t steps_done);
// Seeds the default generators such that fsdp::Pipeline draws that number.
void seed_step(const RunOptions& options, int64_t steps_done);

}  // namespace trainer
