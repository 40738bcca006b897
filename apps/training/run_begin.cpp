#include "training/run_begin.h"

#include <fmt/format.h>

#include <filesystem>

#include "models/hugging_face_weights.h"
#include "options/sample_choice.h"
#include "run/checkpoints.h"
#include "run/first_rank.h"
#include "run/run_files.h"
#include "training/lenient_load.h"

namespace trainer {

namespace {

// Those of --init-from. Returns in what they differ from the model.
std::string load_first_weights(Training& training) {
  const RunOptions& options = training.options;
  return text_of(load_leniently(options, [&](bool strict, fsdp::LoadDifferences& differences) {
    const std::string& weights = options.model_options.init_from;
    if (sample_form(weights) == SampleForm::Checkpoint) {
      fsdp::load_checkpoint(weights, {.model = &training.sharded, .mesh = training.mesh.mesh()},
                            {.strict = strict, .differences = &differences});
      return;
    }
    fsdp::PretrainedOptions pretrained = models::pretrained_options(options.model);
    pretrained.mesh = training.mesh.mesh();
    pretrained.strict = strict;
    pretrained.differences = &differences;
    fsdp::load_pretrained(weights, training.sharded, pretrained);
  }));
}

}  // namespace

Resumed begin_run(Training& training) {
  Resumed resumed = resume_run(training);
  const RunOptions& options = training.options;
  if (resumed.steps_done == 0 && !options.model_options.init_from.empty()) {
    training.show_settings();
    const std::string differs = load_first_weights(training);
    resumed.told = fmt::format("begins with the weights of {}{}{}", options.model_options.init_from,
                               differs.empty() ? "" : ": ", differs);
  }
  training.sharded.initialise();  // the first weights, where nothing was loaded
  if (resumed.steps_done < options.steps || options.checkpoint.empty()) return resumed;
  throw fsdp::Error(
      fmt::format("checkpoint '{}' has done {} steps and --steps is {}: nothing is left to train. Use more --steps.",
                  options.checkpoint, resumed.steps_done, options.steps));
}

void lock_run(fsdp::World& world, const RunOptions& options, bool may_make, std::optional<RunLock>& lock) {
  from_first_rank(world, [&] {
    std::error_code ignored;
    if (lock || (!may_make && !std::filesystem::exists(options.run, ignored))) return std::string();
    lock.emplace(options.run);
    tidy_after_crash(options.run);
    remove_unfinished_files(options.run);
    return std::string();
  });
}

void leave_later_steps(Training& training, int64_t steps_done) {
  const RunOptions& options = training.options;
  const bool chose_beginning = options.resume != "auto" || !options.checkpoint.empty();
  if (options.no_save || !chose_beginning) return;
  from_first_rank(training.world, [&] {
    if (!training.job.left_later_steps.is_set()) set_later_checkpoints_aside(options.run, steps_done);
    training.job.left_later_steps.set();
    return std::string();
  });
}

void check_done(fsdp::World& world, const RunOptions& options, const Resumed& resumed) {
  if (in_one_line(resumed.differs).empty()) return;
  throw AgreedError(
      world,
      fmt::format("the run in '{}' has done all its {} steps, and these options differ from its own. To train it "
                  "further, give more --steps. To train anew, name another --run, or none for a fresh one.{}",
                  options.run, resumed.steps_done, in_rows(resumed.differs)));
}

}  // namespace trainer
