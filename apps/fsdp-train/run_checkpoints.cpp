#include "run_checkpoints.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

namespace trainer {

namespace fs = std::filesystem;

namespace {

Resumed load(Training& training, const fs::path& checkpoint) {
  Resumed resumed;
  resumed.state = from_notes(fsdp::checkpoint_notes(checkpoint));
  resumed.steps_done =
      fsdp::load_checkpoint(checkpoint, {.model = &training.sharded, .optimizer = &training.optimizer.optimizer()});
  if (training.options.scales_loss() && resumed.state.loss_scale > 0) {
    training.scaler.load_state({.scale = resumed.state.loss_scale, .finite_steps = resumed.state.finite_steps});
  }
  resumed.told = fmt::format("goes on from {}", checkpoint.string());
  return resumed;
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
  return load_newest(training, checkpoints_of(options.run));
}

}  // namespace trainer
