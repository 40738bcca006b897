// The beginning of a rank's loop: the run's folder, and the weights that training goes on from.
#pragma once

#include <optional>

#include "run/run_lock.h"
#include "training/run_resume.h"
#include "training/training.h"

namespace trainer {

// Rank 0 takes the lock, if it has not, and tidies the folder; with `may_make` also that of a folder that is not there
// yet. A collective.
void lock_run(fsdp::World& world, const RunOptions& options, bool may_make, std::optional<RunLock>& lock);

// The beginning of the loop: a checkpoint, weights that were trained elsewhere, or the first weights. Throws
// fsdp::Error where nothing is left to train. A collective.
Resumed begin_run(Training& training);

// A run that goes back to an earlier checkpoint, or begins anew, sets its later checkpoints aside: a later start, after
// a kill too, then goes on from here. Once in a job, whose own checkpoints come later. A collective.
void leave_later_steps(Training& training, int64_t steps_done);

// A run that is done, and started again as it was, has nothing to do; with other options it was meant to be another,
// and this throws AgreedError.
void check_done(fsdp::World& world, const RunOptions& options, const Resumed& resumed);

}  // namespace trainer
