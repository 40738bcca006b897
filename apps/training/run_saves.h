// Saves a run: RUN/step-N and RUN/best.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "metrics/checkpoint_record.h"
#include "run/resume_state.h"
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

// "saved run-1/step-200, 10.4 MB in 0.21 s; removed step-100"
std::string told_of(const CheckpointRecord& saved, const std::string& run);

}  // namespace trainer
