// Saves a run, and finds where it stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "metrics/checkpoint_record.h"
#include "run/checkpoints.h"
#include "run/resume_state.h"
#include "training/train_step.h"
#include "training/training.h"

namespace trainer {

struct SavedCheckpoint {
  std::string problem = {};      // what went wrong, the same on every rank; empty: nothing did
  CheckpointRecord record = {};  // in rank 0, but for its time in the run
};

// A save from its begin to its end. At most one is under way.
struct BegunSave {
  std::filesystem::path folder;
  int64_t step = 0;
  bool best = false;                     // RUN/best
  fsdp::PendingCheckpoint pending = {};  // where it goes on beside the steps
  std::string problem = {};              // what went wrong at once, the same on every rank; empty: nothing did
  double call_seconds = 0;
  bool is_done() const { return pending.done(); }
};

enum class SaveMode { WhileTrainingWaits, BesideSteps };

// Saves RUN/step-N with the state, or RUN/best. They do not throw for what went wrong: a full disk need not end a run.
// Collectives.
BegunSave begin_save_run(Training& training, const ResumeState& state, int64_t steps_done, SaveMode mode);
BegunSave begin_save_best(Training& training, const ResumeState& state, int64_t steps_done, SaveMode mode);

// Waits for the commit; then rank 0 removes old checkpoints, as --keep asks. No collective, but it waits for the saves
// of the other ranks.
SavedCheckpoint finish_save(Training& training, const BegunSave& save);

// Loads the weights of RUN/best. Throws fsdp::Error. A collective.
void load_best(Training& training);

// With --hot-restart the state is whole, and a rank that dies from now on loses nothing (fsdp/hot_restart.h); otherwise
// does nothing. `outstanding`: the rest of the last step is to be done; null: nothing is. `unsaved`: the step
// of a checkpoint that is not written yet; 0: there is none.
void hold_run(Training& training, const ResumeState& state, int64_t steps_done, const StepOutcome* outstanding,
              int64_t unsaved);

// "saved run-1/step-200, 10.4 MB in 0.21 s; removed step-100"
std::string told_of(const CheckpointRecord& saved, const std::string& run);

struct Resumed {
  int64_t steps_done = 0;
  ResumeState state = {};
  std::string told = {};         // what a person should know; empty: nothing
  std::string passed_over = {};  // newer checkpoints that are damaged, and how; empty: none is
  std::string differs = {};      // settings that are not those of the checkpoint: "--lr: 0.1 before, 0.2 now"
  // From memory: the rest of the last step is to be done; the step of a checkpoint that was begun and is not there, 0:
  // there is none.
  std::optional<StepOutcome> outstanding = std::nullopt;
  int64_t unsaved = 0;
  // Steps that RUN/metrics.jsonl may have.
  int64_t steps_recorded() const { return steps_done - (outstanding ? 1 : 0); }
};

// Takes over what ranks that died left in memory, where that is whole. Otherwise loads what --checkpoint or --resume
// names. With --resume auto that is the newest checkpoint of the run that can be loaded, or none. Throws fsdp::Error
// when a checkpoint that was named cannot be, or when none of several can; and with
// --resume for one of a run with other data, another model or another rule (run_settings.h), which --checkpoint allows.
// A collective.
Resumed resume_run(Training& training);

}  // namespace trainer
