#include "training/run_checkpoints.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <vector>

#include "console/terminal.h"
#include "console/units.h"
#include "files/json.h"
#include "run/checkpoint_folder.h"
#include "run/first_rank.h"
#include "run/run_folder.h"
#include "training/lenient_load.h"
#include "training/outstanding_step.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

using Notes = std::map<std::string, std::string>;

// As rank 0 reads them, on every rank.
Notes notes_of(fsdp::World& world, const fs::path& checkpoint) {
  const std::string text =
      from_first_rank(world, [&] { return fsdp::files::Json(fsdp::checkpoint_notes(checkpoint)).dump(); });
  return fsdp::files::parse_json(text, "the checkpoint's notes").get<Notes>();
}

constexpr const char* kSettings = "settings";  // the note

struct OtherRun : AgreedError {
  using AgreedError::AgreedError;
};

enum class Settings { Kept, Free };

// Of "16,384"; 0 for what is no number.
int64_t ungrouped(std::string text) {
  std::erase(text, ',');
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// How many micro-batches make a step of as many tokens as before: a run that goes on with other ranks keeps its data.
std::string advice_on_step(const Options& options, const RunSettings& saved) {
  const auto found = saved.find(kTokensOfStep);
  const int64_t before = found == saved.end() ? 0 : ungrouped(found->second);
  const int64_t of_micro_batch = options.tokens_per_step() / options.micro_batches;
  if (before <= 0 || before == options.tokens_per_step()) return "";
  if (before % of_micro_batch == 0) {
    return fmt::format(" With --micro-batches {} on {} a step has as many tokens as before.", before / of_micro_batch,
                       counted(options.ranks, "rank"));
  }
  return fmt::format(" No --micro-batches makes a step of {} tokens on {} with --batch {}: change these.",
                     grouped(before), counted(options.ranks, "rank"), options.batch);
}

// The text about settings that differ from the checkpoint's. Throws OtherRun for some that are to be kept.
std::string compare_settings(const Training& training, const Notes& notes, const fs::path& checkpoint, Settings may) {
  const auto note = notes.find(kSettings);
  if (note == notes.end()) return "";
  const RunSettings saved = settings_from_note(note->second);
  const auto [kept, free] = difference(saved, training.settings);
  if (may == Settings::Kept && !kept.empty()) {
    throw OtherRun(
        training.world,
        fmt::format("checkpoint '{}' is of another run: {}. Give the values from before, or begin anew with another "
                    "--run. To go on from it all the same: --checkpoint {} --run OTHER.{}{}",
                    checkpoint.string(), kept, checkpoint.string(), advice_on_step(training.options, saved),
                    free.empty() ? std::string() : fmt::format(" What differs beside it, and may: {}.", free)));
  }
  return fmt::format("{}{}{}", kept, kept.empty() || free.empty() ? "" : "; ", free);
}

// Throws OtherRun for a checkpoint whose moments are kept otherwise: they are converted only where that is asked for.
void check_optimizer_state(const Training& training, const Notes& notes, const fs::path& checkpoint, Settings may) {
  const auto note = notes.find(kSettings);
  if (note == notes.end()) return;
  const RunSettings saved = settings_from_note(note->second);
  const auto before = saved.find("--optimizer-state");
  const std::string found = before == saved.end() ? "fp32" : before->second;
  const std::string& given = training.options.optimizer_state;
  if (found == given) return;
  throw OtherRun(training.world,
                 fmt::format("checkpoint '{}' keeps AdamW's moments in {}, and --optimizer-state is {}. "
                             "Go on with --optimizer-state {}{}.",
                             checkpoint.string(), found, given, found,
                             may == Settings::Free ? ", or convert them: --no-strict" : ""));
}

// The state of the loop, that of the scaler with it.
Notes notes_of_run(const Training& training, ResumeState state) {
  if (training.options.scales_loss()) {
    state.loss_scale = training.scaler.state().scale;
    state.finite_steps = training.scaler.state().finite_steps;
  }
  return to_notes(state);
}

// And back, from a checkpoint or from memory.
Resumed resumed_from(Training& training, const Notes& notes, int64_t steps_done) {
  Resumed resumed{.steps_done = steps_done, .state = from_notes(notes)};
  if (training.options.scales_loss() && resumed.state.loss_scale > 0) {
    training.scaler.load_state({.scale = resumed.state.loss_scale, .finite_steps = resumed.state.finite_steps});
  }
  return resumed;
}

Resumed load(Training& training, const fs::path& checkpoint, Settings may) {
  const Notes notes = notes_of(training.world, checkpoint);
  const std::string differs = compare_settings(training, notes, checkpoint, may);
  const bool is_own = may == Settings::Kept;
  if (is_own || !training.options.no_strict) check_optimizer_state(training, notes, checkpoint, may);
  from_notes(notes);  // throws, before anything changes
  int64_t steps_done = 0;
  const auto load_state = [&](bool strict, fsdp::LoadDifferences& differences) {
    steps_done =
        fsdp::load_checkpoint(checkpoint, {.model = &training.sharded, .optimizer = &training.optimizer.optimizer()},
                              {.strict = strict, .differences = &differences});
  };
  fsdp::LoadDifferences not_loaded;
  if (is_own) {
    load_state(/*strict=*/true, not_loaded);
  } else {
    not_loaded = load_leniently(training.options, load_state);
  }
  check_step_in_name(checkpoint, steps_done);
  Resumed resumed = resumed_from(training, notes, steps_done);
  resumed.differs = differs;
  resumed.told = fmt::format("goes on from {}", checkpoint.string());
  if (!differs.empty()) resumed.told += fmt::format(" ({})", differs);
  if (const std::string text = text_of(not_loaded); !text.empty()) resumed.told += "; " + text;
  return resumed;
}

// The checkpoints of a run, and what is left of damaged ones, as rank 0 sees them, on every rank, the newest first.
std::vector<fs::path> agreed_checkpoints(fsdp::World& world, const std::string& run) {
  constexpr char kEnd = '\0';  // which no path has
  const std::string text = from_first_rank(world, [&] {
    std::string names;
    for (const fs::path& checkpoint : checkpoints_and_remains_of(run)) {
      names += checkpoint.string();
      names += kEnd;
    }
    return names;
  });
  std::vector<fs::path> newest_first;
  for (size_t begin = 0; begin < text.size(); begin = text.find(kEnd, begin) + 1) {
    newest_first.emplace_back(text.substr(begin, text.find(kEnd, begin) - begin));
  }
  return newest_first;
}

// The newest that can be loaded, and what is wrong with newer ones. Throws AgreedError where none of them can.
Resumed load_newest(Training& training, const std::vector<fs::path>& newest_first) {
  std::vector<std::string> problems;
  for (const fs::path& checkpoint : newest_first) {
    try {
      Resumed resumed = load(training, checkpoint, Settings::Kept);
      resumed.passed_over = fmt::format("{}", fmt::join(problems, "; "));
      return resumed;
    } catch (const OtherRun&) {
      throw;
    } catch (const fsdp::Error& error) {
      problems.push_back(fmt::format("{} cannot be loaded: {}", checkpoint.string(), error.what()));
    }
  }
  if (problems.empty()) return {};
  throw AgreedError(training.world,
                    fmt::format("run '{}' has no checkpoint to go on from. Begin anew with another --run.\n    {}",
                                training.options.run, fmt::join(problems, "\n    ")));
}

// Saves to a folder of the run, or begins to, and moves aside what lies there and is no checkpoint.
void save_to(BegunSave& save, Training& training, const ResumeState& state, SaveMode mode) try {
  Notes notes = notes_of_run(training, state);
  notes[kSettings] = to_note(training.settings);
  const std::string told = from_first_rank(training.world, [&] { return make_way_for(save.folder); });
  if (training.world.rank() == 0 && !told.empty()) print_error(told + "\n");
  const fsdp::Checkpoint checkpoint{
      .model = &training.sharded, .optimizer = &training.optimizer.optimizer(), .step = save.step, .notes = notes};
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
void remove_older(const Options& options, CheckpointRecord& record) try {
  set_later_checkpoints_aside(options.run, record.step);
  const RemovedCheckpoints removed = remove_old_checkpoints(options.run, options.keep);
  for (const fs::path& folder : removed.folders) record.removed.push_back(folder.filename().string());
  for (const std::string& problem : removed.problems) print_error(problem + "\n");
  record.kept = static_cast<int64_t>(checkpoints_of(options.run).size());
} catch (const std::exception& error) {
  print_error(fmt::format("{}\n", error.what()));
}

// Of another run, whose validation losses need not be of this run's data.
bool is_of_other_run(Training& training) {
  const Options& options = training.options;
  const auto answer = [&] { return is_of_run(options.checkpoint, options.run) ? "" : "yes"; };
  return !from_first_rank(training.world, answer).empty();
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

void load_best(Training& training) {
  fsdp::load_checkpoint(training.options.best_folder(), {.model = &training.sharded});
}

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
  const std::string text = from_first_rank(training.world, [&] { return fsdp::files::Json(left.notes).dump(); });
  const Notes notes = fsdp::files::parse_json(text, "the notes in memory").get<Notes>();
  Resumed resumed = resumed_from(training, notes, left.step);
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

std::string told_of(const CheckpointRecord& saved, const std::string& run) {
  const std::string removed = saved.removed.empty() ? "" : fmt::format("; removed {}", fmt::join(saved.removed, ", "));
  return fmt::format("saved {}/{}, {} in {:.2g} s{}", run, saved.folder, short_bytes(static_cast<size_t>(saved.bytes)),
                     saved.save_seconds, removed);
}

Resumed resume_run(Training& training) {
  const Options& options = training.options;
  if (const auto left = fsdp::resume_hot({.model = &training.sharded, .optimizer = &training.optimizer.optimizer()})) {
    return resumed_from_memory(training, *left);
  }
  if (!options.checkpoint.empty()) {
    Resumed resumed = load(training, options.checkpoint, Settings::Free);
    if (is_of_other_run(training)) {
      resumed.state.best_validation_loss = ResumeState().best_validation_loss;
      resumed.state.best_step = resumed.state.validations_since_best = 0;
    }
    return resumed;
  }
  if (options.resume == "never") return {};
  if (options.resume != "auto") return load(training, options.resume, Settings::Kept);
  return load_newest(training, agreed_checkpoints(training.world, options.run));
}

}  // namespace trainer
