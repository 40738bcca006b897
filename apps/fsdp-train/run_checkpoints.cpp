#include "run_checkpoints.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "first_rank.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

using Notes = std::map<std::string, std::string>;

// As rank 0 reads them, on every rank.
Notes notes_of(fsdp::World& world, const fs::path& checkpoint) {
  const std::string text =
      from_first_rank(world, [&] { return nlohmann::json(fsdp::checkpoint_notes(checkpoint)).dump(); });
  return nlohmann::json::parse(text).get<Notes>();
}

Resumed load(Training& training, const fs::path& checkpoint) {
  Resumed resumed;
  resumed.state = from_notes(notes_of(training.world, checkpoint));
  resumed.steps_done =
      fsdp::load_checkpoint(checkpoint, {.model = &training.sharded, .optimizer = &training.optimizer.optimizer()});
  if (training.options.scales_loss() && resumed.state.loss_scale > 0) {
    training.scaler.load_state({.scale = resumed.state.loss_scale, .finite_steps = resumed.state.finite_steps});
  }
  resumed.told = fmt::format("goes on from {}", checkpoint.string());
  return resumed;
}

// The checkpoints of a run as rank 0 sees them, on every rank, the newest first.
std::vector<fs::path> agreed_checkpoints(fsdp::World& world, const std::string& run) {
  constexpr char kEnd = '\0';  // which no path has
  const std::string text = from_first_rank(world, [&] {
    std::string names;
    for (const fs::path& checkpoint : checkpoints_of(run)) names += checkpoint.string() + kEnd;
    return names;
  });
  std::vector<fs::path> newest_first;
  for (size_t begin = 0; begin < text.size(); begin = text.find(kEnd, begin) + 1) {
    newest_first.emplace_back(text.substr(begin, text.find(kEnd, begin) - begin));
  }
  return newest_first;
}

// The newest that can be loaded; what is wrong with newer ones is told.
Resumed load_newest(Training& training, const std::vector<fs::path>& newest_first) {
  std::string problems;
  for (const fs::path& checkpoint : newest_first) {
    try {
      Resumed resumed = load(training, checkpoint);
      resumed.told += problems;
      return resumed;
    } catch (const fsdp::Error& error) {
      if (checkpoint == newest_first.back()) throw;
      problems += fmt::format("; {} cannot be loaded: {}", checkpoint.string(), error.what());
    }
  }
  return {};
}

}  // namespace

std::string save_run(Training& training, ResumeState state, int64_t steps_done) {
  const Options& options = training.options;
  if (options.scales_loss()) {
    state.loss_scale = training.scaler.state().scale;
    state.finite_steps = training.scaler.state().finite_steps;
  }
  try {
    fsdp::save_checkpoint(options.checkpoint_folder(steps_done), {.model = &training.sharded,
                                                                  .optimizer = &training.optimizer.optimizer(),
                                                                  .step = steps_done,
                                                                  .notes = to_notes(state)});
  } catch (const fsdp::Error& error) {
    return error.what();
  }
  try {
    if (training.world.rank() == 0) {
      set_later_checkpoints_aside(options.run, steps_done);
      remove_old_checkpoints(options.run, options.keep);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  return "";
}

Resumed resume_run(Training& training) {
  const Options& options = training.options;
  if (!options.checkpoint.empty()) return load(training, options.checkpoint);
  if (options.resume == "never") return {};
  if (options.resume != "auto") return load(training, options.resume);
  return load_newest(training, agreed_checkpoints(training.world, options.run));
}

}  // namespace trainer
