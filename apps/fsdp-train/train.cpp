#include "train.h"

#include <fmt/format.h>
#include <fsdp/fsdp.h>

#include <optional>
#include <vector>

#include "data/batch.h"
#include "data/data_order.h"
#include "data/text.h"
#include "evaluate.h"
#include "loss_scale.h"
#include "models/gpt.h"
#include "report.h"
#include "sample.h"
#include "settings.h"
#include "sharding.h"
#include "shared_flag.h"

namespace trainer {

namespace {

fsdp::AdamWOptions adamw_options(const Options& options) {
  return {.lr = options.lr,
          .beta1 = Options::kBeta1,
          .beta2 = Options::kBeta2,
          .weight_decay = options.weight_decay,
          // Decay is for matrices that multiply: a bias, a norm's scale or an embedding has no reason to shrink.
          .groups = {{.patterns = {"*bias", "*norm.weight", "*embedding.weight"}, .weight_decay = 0.0}}};
}

// Loads the checkpoint, if there is one, and returns the steps that it has done.
int64_t resume(const Options& options, fsdp::ShardedModel& model, fsdp::AdamW& optimizer, fsdp::GradScaler& scaler) {
  if (options.checkpoint.empty()) return 0;
  const int64_t done = fsdp::load_checkpoint(options.checkpoint, {.model = &model, .optimizer = &optimizer});
  load_loss_scale(options.checkpoint, scaler);
  if (done < options.steps) return done;
  throw fsdp::Error(
      fmt::format("checkpoint '{}' has done {} steps and --steps is {}: nothing is left to train. Use more "
                  "--steps.",
                  options.checkpoint, done, options.steps));
}

bool is_due(int64_t steps_done, int64_t every, int64_t steps) {
  return steps_done == steps || (every > 0 && steps_done % every == 0);
}

// What `function` throws as an Error is the fault of something that was given.
template <typename Function>
auto blaming_input(SharedFlag& bad_input, Function function) try {
  return function();
} catch (const fsdp::Error&) {
  bad_input.set();
  throw;
}

// What a rank trains with.
struct Training {
  fsdp::World& world;
  const Options& options;
  std::string_view text;
  gpt::Gpt& model;
  fsdp::ShardedModel& sharded;
  fsdp::AdamW& optimizer;
  fsdp::GradScaler& scaler;  // does nothing where the parameters are not fp16
};

// Adds up the gradients of this rank's micro-batches and returns their losses.
std::vector<float> run_micro_batches(Training& training, DataOrder& order, int64_t steps_done) {
  const Options& options = training.options;
  std::vector<float> losses;
  for (int64_t micro_batch = 0; micro_batch < options.micro_batches; ++micro_batch) {
    const auto starts = order.window_starts(options.step_shape(), steps_done, training.world.rank(), micro_batch);
    const Batch batch = make_batch(training.text, starts, options.model.context);
    auto loss = training.model->loss(batch.tokens, batch.targets);  // the module itself, called as ever
    training.scaler.scale(loss).backward();
    losses.push_back(loss.item<float>());
  }
  return losses;
}

StepRecord train_step(Training& training, DataOrder& order, int64_t steps_done) {
  StepRecord record{.step = steps_done + 1, .lr = training.options.learning_rate().at(steps_done)};
  if (training.options.scales_loss()) record.loss_scale = training.scaler.scale_value();
  const std::vector<float> losses = run_micro_batches(training, order, steps_done);
  training.scaler.unscale_(training.sharded);
  record.grad_norm = training.sharded.clip_grad_norm_(training.options.clip);
  training.optimizer.set_lr(record.lr);
  record.skipped = !training.scaler.step(training.optimizer);
  training.scaler.update();
  training.optimizer.zero_grad();
  record.loss = mean_loss(training.world, losses);
  return record;
}

void save(Training& training, int64_t steps_done) {
  const std::string folder = training.options.checkpoint_folder(steps_done);
  fsdp::save_checkpoint(folder, {.model = &training.sharded, .optimizer = &training.optimizer, .step = steps_done});
  if (training.options.scales_loss() && training.world.rank() == 0) save_loss_scale(folder, training.scaler);
}

// Every rank runs this; rank 0 alone has a report.
void train_rank(fsdp::World& world, const Options& options, const TextSplit& text, SharedFlag& bad_input) {
  torch::manual_seed(static_cast<uint64_t>(options.seed));
  gpt::Gpt model(options.model);
  model->to(world.device());
  auto sharded = blaming_input(bad_input, [&] { return fsdp::shard(*model, world, sharding_of(options)); });
  fsdp::AdamW optimizer(sharded, adamw_options(options));
  fsdp::GradScaler scaler({.enabled = options.scales_loss()});
  // The losses of the micro-batches are as the model gives them; the sum of their gradients is divided, once.
  sharded.set_gradient_divisor(static_cast<double>(world.size() * options.micro_batches));

  int64_t steps_done = blaming_input(bad_input, [&] { return resume(options, sharded, optimizer, scaler); });
  std::optional<Report> report;
  if (world.rank() == 0) blaming_input(bad_input, [&] { report.emplace(options, steps_done); });
  DataOrder order(static_cast<int64_t>(text.training.size()), options.model.context,
                  static_cast<uint64_t>(options.seed));
  Training training{world, options, text.training, model, sharded, optimizer, scaler};

  while (steps_done < options.steps) {
    StepRecord record = train_step(training, order, steps_done++);
    if (is_due(steps_done, options.validate_every, options.steps)) {
      record.validation_loss = validation_loss(model, text.validation);
    }
    if (report) report->step(record);
    if (is_due(steps_done, options.save_every, options.steps)) save(training, steps_done);
  }
  const std::string written = sample(model, options);
  if (report) report->finish(written);
}

// What the job decides, not the command line: under torchrun and its like the number of ranks is theirs.
Options resolved(Options options, const fsdp::World& world) {
  options.ranks = world.size();
  if (options.threads > 0) torch::set_num_threads(static_cast<int>(options.threads));
  options.threads = torch::get_num_threads();
  return options;
}

}  // namespace

int train(const Options& given, const std::string& text) {
  constexpr int kUsageError = 2;
  const TextSplit split = split_text(text, given.model.context);
  SharedFlag bad_input;
  auto rank = [&](fsdp::World& world) {
    const Options options = resolved(given, world);
    if (world.rank() == 0) fmt::print("{}\n", settings_table(options, split));
    train_rank(world, options, split, bad_input);
  };
  const int code = fsdp::launch(
      {.ranks = static_cast<int>(given.ranks), .timeout = std::chrono::seconds(given.timeout), .plain_rank0 = true},
      rank);
  constexpr int kThrew = 1;  // as against a rank that was killed, which may look like bad input to the others
  return bad_input.is_set() && code == kThrew ? kUsageError : code;
}

}  // namespace trainer
