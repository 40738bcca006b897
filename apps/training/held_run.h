// A run whose state the launcher holds in memory: --hot-restart.
#pragma once

#include <cstdint>
#include <optional>

#include "training/run_resume.h"

namespace trainer {

// With --hot-restart the state is whole, and a rank that dies from now on loses nothing (fsdp/hot_restart.h); otherwise
// does nothing. `outstanding`: the rest of the last step is to be done; null: nothing is. `unsaved`: the step
// of a checkpoint that is not written yet; 0: there is none.
void hold_run(Training& training, const ResumeState& state, int64_t steps_done, const StepOutcome* outstanding,
              int64_t unsaved);

// Takes over what ranks that died left in memory, where that is whole. A collective.
std::optional<Resumed> resume_held(Training& training);

}  // namespace trainer
