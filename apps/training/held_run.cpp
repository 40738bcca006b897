#include "training/held_run.h"

#include <fmt/format.h>

#include "run/checkpoint_folder.h"
#include "run/first_rank.h"
#include "training/outstanding_step.h"
#include "training/run_notes.h"

namespace trainer {

namespace {

constexpr const char* kOutstanding = "outstanding";  // notes of what is left in memory
constexpr const char* kUnsaved = "unsaved";

// The step of a checkpoint that was being written, unless it is there; 0: none. A collective.
int64_t unsaved_step(Training& training, const Notes& notes) {
  const auto note = notes.find(kUnsaved);
  if (note == notes.end()) return 0;
  const int64_t step = std::stoll(note->second);
  const std::string folder = training.options.checkpoint_folder(step);
  const std::string found = from_first_rank(training.world, [&] { return is_checkpoint(folder) ? "there" : ""; });
  return found.empty() ? step : 0;
}

// Some ranks may have come to the end of the step, and others not: rank 0's notes count for all.
Resumed resumed_from_memory(Training& training, const fsdp::HotState& left) {
  const Notes notes = notes_of_first_rank(training.world, left.notes);
  Resumed resumed{.steps_done = left.step, .state = state_of_run(training, notes)};
  resumed.told = fmt::format("goes on from memory, after {} steps", left.step);
  if (const auto note = notes.find(kOutstanding); note != notes.end()) {
    resumed.outstanding = outcome_from_note(note->second);
  }
  resumed.unsaved = unsaved_step(training, notes);
  return resumed;
}

}  // namespace

void hold_run(Training& training, const ResumeState& state, int64_t steps_done, const StepOutcome* outstanding,
              int64_t unsaved) {
  if (!training.options.hot_restart) return;
  Notes notes = notes_of_run(training, state);
  if (outstanding != nullptr) notes[kOutstanding] = to_note(*outstanding);
  if (unsaved > 0) notes[kUnsaved] = std::to_string(unsaved);
  fsdp::hot_checkpoint(
      {.model = &training.sharded, .optimizer = &training.optimizer.optimizer(), .step = steps_done, .notes = notes});
}

std::optional<Resumed> resume_held(Training& training) {
  const auto left = fsdp::resume_hot({.model = &training.sharded, .optimizer = &training.optimizer.optimizer()});
  if (!left) return std::nullopt;
  return resumed_from_memory(training, *left);
}

}  // namespace trainer
