#include "training/run_saves.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "console/terminal.h"
#include "console/units.h"
#include "run/checkpoint_folder.h"
#include "run/checkpoints.h"
#include "run/first_rank.h"
#include "training/run_notes.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

// Saves to a folder of the run, or begins to, and moves aside what lies there and is no checkpoint.
void save_to(BegunSave& save, Training& training, const ResumeState& state, SaveMode mode) try {
  Notes notes = notes_of_run(training, state);
  notes[kSettings] = to_note(training.settings);
  const std::string told = from_first_rank(training.world, [&] { return make_way_for(save.folder); });
  if (training.world.rank() == 0 && !told.empty()) print_error(told + "\n");
  const fsdp::Checkpoint checkpoint{.model = &training.sharded,
                                    .optimizer = &training.optimizer.optimizer(),
                                    .step = save.step,
                                    .notes = notes,
                                    .mesh = training.mesh.mesh()};
  if (mode == SaveMode::BesideSteps) {
    save.pending = fsdp::save_checkpoint_async(save.folder, checkpoint);
  } else {
    fsdp::save_checkpoint(save.folder, checkpoint);
  }
} catch (const fsdp::Error& error) {
  save.problem = error.what();
}

BegunSave begin_save(BegunSave save, Training& training, const ResumeState& state, SaveMode mode) {
  const auto begin = std::chrono::steady_clock::now();
  save_to(save, training, state, mode);
  save.call_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return save;
}

// In the folder of the run, of which it is the newest now.
void remove_older(const RunOptions& options, CheckpointRecord& record) try {
  set_later_checkpoints_aside(options.run, record.step);
  const RemovedCheckpoints removed = remove_old_checkpoints(options.run, options.keep);
  for (const fs::path& folder : removed.folders) record.removed.push_back(folder.filename().string());
  for (const std::string& problem : removed.problems) print_error(problem + "\n");
  record.kept = static_cast<int64_t>(checkpoints_of(options.run).size());
} catch (const std::exception& error) {
  print_error(fmt::format("{}\n", error.what()));
}

}  // namespace

BegunSave begin_save_best(Training& training, const ResumeState& state, int64_t steps_done, SaveMode mode) {
  return begin_save({.folder = training.options.best_folder(), .step = steps_done, .best = true}, training, state,
                    mode);
}

BegunSave begin_save_run(Training& training, const ResumeState& state, int64_t steps_done, SaveMode mode) {
  return begin_save({.folder = training.options.checkpoint_folder(steps_done), .step = steps_done}, training, state,
                    mode);
}

SavedCheckpoint finish_save(Training& training, const BegunSave& save) {
  SavedCheckpoint saved{.problem = save.problem,
                        .record = {.step = save.step, .folder = save.folder.filename().string(), .best = save.best}};
  try {
    save.pending.wait();
  } catch (const fsdp::Error& error) {
    saved.problem = error.what();
  }
  // The call did more than begin the save.
  saved.record.pause_seconds = std::max(save.call_seconds, save.pending.seconds_paused());
  saved.record.save_seconds = std::max(save.call_seconds, save.pending.seconds());
  if (!saved.problem.empty() || training.world.rank() != 0) return saved;
  saved.record.bytes = bytes_of_checkpoint(save.folder);
  if (!save.best) remove_older(training.options, saved.record);
  return saved;
}

std::string told_of(const CheckpointRecord& saved, const std::string& run) {
  const std::string removed = saved.removed.empty() ? "" : fmt::format("; removed {}", fmt::join(saved.removed, ", "));
  return fmt::format("saved {}/{}, {} in {:.2g} s{}", run, saved.folder, short_bytes(static_cast<size_t>(saved.bytes)),
                     saved.save_seconds, removed);
}

}  // namespace trainer
