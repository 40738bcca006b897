// A training step of this library, as one rank of a job whose launcher is the comparison.
//
//   bench_train_sharded --backends    the backends of this build, one per line
#include <fmt/format.h>
#include <fsdp/fsdp.h>

#include <limits>
#include <map>
#include <optional>
#include <string>

#include "collectives/backends.h"
#include "models/gpt2.h"
#include "models/llama.h"
#include "training.h"

namespace {

using contestant::Json;

constexpr int64_t kAllBlocks = std::numeric_limits<int64_t>::max();

const std::map<std::string, fsdp::Strategy> kStrategies = {
    {"FullShard", fsdp::Strategy::FullShard},           {"ShardGradOp", fsdp::Strategy::ShardGradOp},
    {"HybridShard", fsdp::Strategy::HybridShard},       {"HybridShardGradOp", fsdp::Strategy::HybridShardGradOp},
    {"ShardOptimizer", fsdp::Strategy::ShardOptimizer}, {"NoShard", fsdp::Strategy::NoShard}};

// Of the blocks in the backward.
const std::map<std::string, models::Recomputation> kRecomputations = {
    {"none", {}}, {"all", {.blocks = kAllBlocks}}, {"selective", {.blocks = kAllBlocks, .keeps_products = true}}};

struct Arguments {
  contestant::Training training;
  std::string backend = "auto";
  std::string recompute = "none";
  std::string offload_directory;
  fsdp::Options sharding = {.units = fsdp::units_of<models::Gpt2BlockImpl, models::LlamaBlockImpl>()};
  bool step_in_backward = false;
};

fsdp::Options sharding_of(const Arguments& arguments) {
  fsdp::Options options = arguments.sharding;
  options.offload_directory = arguments.offload_directory;
  const torch::ScalarType dtype = contestant::dtype_of(arguments.training);
  if (dtype != torch::kFloat32) options.mixed_precision.param_dtype = dtype;
  return options;
}

std::shared_ptr<models::LanguageModel> model_of(const Arguments& arguments) {
  auto model = contestant::load_model(arguments.training);
  model->set_recomputation(kRecomputations.at(arguments.recompute));
  return model;
}

class ShardedTraining {
 public:
  ShardedTraining(fsdp::World& world, const Arguments& arguments)
      : batch_(contestant::make_batch(arguments.training, world.rank())),
        model_(model_of(arguments)),
        sharded_(fsdp::shard(*model_, world, sharding_of(arguments))),
        optimizer_(sharded_, {.lr = arguments.training.lr}),
        step_in_backward_(arguments.step_in_backward),
        scaler_(contestant::dtype_of(arguments.training) == torch::kFloat16 ? std::optional(fsdp::GradScaler())
                                                                            : std::nullopt) {}

  double step() {
    auto loss = model_->loss(batch_.tokens, batch_.targets);
    if (scaler_) {
      scaler_->scale(loss).backward();
      scaler_->step(optimizer_);
      scaler_->update();
    } else {
      backward(loss);
      optimizer_.step();
    }
    optimizer_.zero_grad();
    return loss.item<double>();
  }

  double waited() const { return sharded_.communication().wait_seconds; }

  Json memory() const {
    const fsdp::MemoryReport report = sharded_.memory();
    return {{"parameters", report.parameter_bytes},
            {"gradients", report.gradient_bytes},
            {"optimizer", report.optimizer_bytes},
            {"full parameters", report.full_parameter_bytes},
            {"full gradients", report.full_gradient_bytes}};
  }

  Json activations() const { return {{"peak", sharded_.memory().peak_activation_bytes}}; }

  Json save(const std::string& folder) {
    return {{"seconds", contestant::seconds_of([&] { fsdp::save_checkpoint(folder, checkpoint()); })}};
  }

  Json load(const std::string& folder) {
    return {{"seconds", contestant::seconds_of([&] { fsdp::load_checkpoint(folder, checkpoint()); })}};
  }

  // Takes steps that begin with a save, and returns after its commit: the seconds of all the steps, for how long the
  // save kept them waiting, and those until the commit.
  Json steps_beside_save(const std::string& folder, int64_t count) {
    fsdp::PendingCheckpoint pending;
    const double seconds = contestant::seconds_of([&] {
      pending = fsdp::save_checkpoint_async(folder, checkpoint());
      for (int64_t i = 0; i < count; ++i) step();
    });
    pending.wait();
    return {{"seconds", seconds}, {"paused", pending.seconds_paused()}, {"until commit", pending.seconds()}};
  }

 private:
  fsdp::Checkpoint checkpoint() { return {.model = &sharded_, .optimizer = &optimizer_}; }

  void backward(torch::Tensor& loss) {
    std::optional<fsdp::StepInBackward> in_backward;
    if (step_in_backward_) in_backward.emplace(optimizer_.step_in_backward());
    loss.backward();
  }

  contestant::Batch batch_;
  std::shared_ptr<models::LanguageModel> model_;
  fsdp::ShardedModel sharded_;
  fsdp::AdamW optimizer_;
  bool step_in_backward_;
  std::optional<fsdp::GradScaler> scaler_;  // in fp16: without it gradients would vanish
};

// Loads as a job does that goes on from a checkpoint: into a model that has no values yet, and an optimizer without
// steps.
Json resume(fsdp::World& world, const Arguments& arguments, const std::string& folder) {
  const auto model = fsdp::deferred_init([&] { return models::make_model(arguments.training.model); });
  fsdp::Options options = sharding_of(arguments);
  options.initialise = false;
  fsdp::ShardedModel sharded = fsdp::shard(*model, world, options);
  fsdp::AdamW optimizer(sharded);
  const double seconds =
      contestant::seconds_of([&] { fsdp::load_checkpoint(folder, {.model = &sharded, .optimizer = &optimizer}); });
  return {{"seconds", seconds}};
}

std::string folder_of(const Json& command) { return command.at("folder").get<std::string>(); }

void train(fsdp::World& world, const Arguments& arguments, contestant::Conversation& conversation) {
  std::optional<ShardedTraining> training;
  conversation.answer({
      {"build",
       [&](const Json&) {
         training.emplace(world, arguments);
         return Json::object();
       }},
      {"steps",
       [&](const Json& command) {
         const double before = training->waited();
         Json answer = contestant::take_steps(command.at("count"), [&] { return training->step(); });
         answer["waited"] = training->waited() - before;
         return answer;
       }},
      {"memory", [&](const Json&) { return training->memory(); }},
      {"activations", [&](const Json&) { return training->activations(); }},
      {"save", [&](const Json& command) { return training->save(folder_of(command)); }},
      {"load", [&](const Json& command) { return training->load(folder_of(command)); }},
      {"resume", [&](const Json& command) { return resume(world, arguments, folder_of(command)); }},
      {"steps beside a save",
       [&](const Json& command) { return training->steps_beside_save(folder_of(command), command.at("count")); }},
  });
}

int print_backends() {
  for (const std::string& name : fsdp::collectives::backend_names()) fmt::print("{}\n", name);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count == 2 && std::string(words[1]) == "--backends") return print_backends();
  Arguments arguments;
  CLI::App app("A training step of fsdp, told over standard input what to do; see bench/README.md.");
  contestant::add_options(app, arguments.training);
  app.add_option("--backend", arguments.backend, "of the collectives");
  app.add_option("--strategy", arguments.sharding.strategy, "what is sharded")
      ->transform(CLI::Transformer(kStrategies));
  app.add_option("--shard-group-size", arguments.sharding.shard_group_size, "ranks that share the state");
  app.add_option("--buffers", arguments.sharding.buffers, "full units at once");
  app.add_option("--prefetch", arguments.sharding.prefetch, "units gathered ahead");
  app.add_option("--recompute", arguments.recompute, "blocks that run again in the backward")
      ->check(CLI::IsMember(kRecomputations));
  app.add_option("--activation-memory", arguments.sharding.activation_memory, "bytes: with --recompute all, at most");
  app.add_option("--offload-directory", arguments.offload_directory, "shards, sums and moments lie there");
  app.add_flag("--step-in-backward", arguments.step_in_backward, "the optimizer steps while the backward runs");
  CLI11_PARSE(app, count, words);

  contestant::Conversation conversation;
  return fsdp::launch({.backend = arguments.backend},
                      [&](fsdp::World& world) { train(world, arguments, conversation); });
}
