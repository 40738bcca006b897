// Where a run goes on: from memory, from a checkpoint, or from its beginning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "run/resume_state.h"
#include "training/train_step.h"
#include "training/training.h"

namespace trainer {

struct Resumed {
  int64_t steps_done = 0;
  ResumeState state = {};
  std::string told = {};            // what a person should know; empty: nothing
  std::string passed_over = {};     // newer checkpoints that are damaged, and how; empty: none is
  SettingsDifference differs = {};  // from the checkpoint's settings
  // From memory: the rest of the last step is to be done; the step of a checkpoint that was begun and is not there, 0:
  // there is none.
  std::optional<StepOutcome> outstanding = std::nullopt;
  int64_t unsaved = 0;
  // Steps that RUN/metrics.jsonl may have.
  int64_t steps_recorded() const { return steps_done - (outstanding ? 1 : 0); }
};

// Takes over what ranks that died left in memory, where that is whole. Otherwise loads what --checkpoint or --resume
// names; with --resume auto that is the newest checkpoint of the run that can be loaded, or none. Throws fsdp::Error if
// a named checkpoint cannot be loaded, or none of several. With --resume also for a run with other data, another model
// or another rule (run_settings.h), which --checkpoint allows. A collective.
Resumed resume_run(Training& training);

// Loads the weights of RUN/best. Throws fsdp::Error. A collective.
void load_best(Training& training);

}  // namespace trainer
