#include "training/run_resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "run/checkpoint_folder.h"
#include "run/checkpoints.h"
#include "run/first_rank.h"
#include "run/run_folder.h"
#include "training/checkpoint_settings.h"
#include "training/held_run.h"
#include "training/lenient_load.h"
#include "training/run_notes.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

Resumed load(Training& training, const fs::path& checkpoint, Settings may) {
  const Notes notes = notes_of(training.world, checkpoint);
  const ComparedSettings settings = compare_settings(training, notes, checkpoint, may);
  const bool is_own = may == Settings::Kept;
  if (is_own || !training.options.no_strict) check_optimizer_state(training, notes, checkpoint, may);
  from_notes(notes);  // throws, before anything changes
  // Reading the weights can take long. A run that has done all its steps may be refused after it.
  if (step_in_name(checkpoint).value_or(0) < training.options.steps) training.show_settings();
  int64_t steps_done = 0;
  const auto load_state = [&](bool strict, fsdp::LoadDifferences& differences) {
    steps_done = fsdp::load_checkpoint(
        checkpoint,
        {.model = &training.sharded, .optimizer = &training.optimizer.optimizer(), .mesh = training.mesh.mesh()},
        {.strict = strict, .differences = &differences});
  };
  fsdp::LoadDifferences not_loaded;
  if (is_own) {
    load_state(/*strict=*/true, not_loaded);
  } else {
    not_loaded = load_leniently(training.options, load_state);
  }
  check_step_in_name(checkpoint, steps_done);
  Resumed resumed{.steps_done = steps_done, .state = state_of_run(training, notes)};
  resumed.differs = settings.differs;
  resumed.told = fmt::format("goes on from {}", checkpoint.string());
  if (const std::string text = in_one_line(resumed.differs); !text.empty()) resumed.told += fmt::format(" ({})", text);
  if (!notes.contains(kSettings)) {
    resumed.told += "; its notes do not say with which settings it was trained, so these are not compared";
  }
  if (!settings.files.empty()) resumed.told += fmt::format("; {}", settings.files);
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
      problems.push_back(cannot_be_loaded(checkpoint, error.what()));
    }
  }
  if (problems.empty()) return {};
  throw AgreedError(training.world,
                    fmt::format("run '{}' has no checkpoint to resume from. Begin anew with another --run.\n    {}",
                                training.options.run, fmt::join(problems, "\n    ")));
}

// True for another run, whose validation losses may be of other data.
bool is_of_other_run(Training& training) {
  const RunOptions& options = training.options;
  const auto answer = [&] { return is_of_run(options.checkpoint, options.run) ? "" : "yes"; };
  return !from_first_rank(training.world, answer).empty();
}

}  // namespace

Resumed resume_run(Training& training) {
  const RunOptions& options = training.options;
  if (std::optional<Resumed> held = resume_held(training)) return *std::move(held);
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

void load_best(Training& training) {
  fsdp::load_checkpoint(training.options.best_folder(), {.model = &training.sharded, .mesh = training.mesh.mesh()});
}

}  // namespace trainer
