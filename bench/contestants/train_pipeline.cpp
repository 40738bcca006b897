// A step of a pipeline: a GPT whose blocks are divided among the ranks, and AdamW on a rank's stages. With --data,
// neighbouring ranks have the same stage, sharded among them. The peer is compare/peer/pipeline.py. The model is that
// of the other contestants, but its head is no longer tied: it begins with the values of the token embedding.
#include <fsdp/fsdp.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/safetensors.h"
#include "models/gpt2.h"
#include "share_optimizer.h"
#include "training.h"

namespace {

using contestant::Json;

const std::map<std::string, fsdp::PipelineSchedule> kSchedules = {
    {"OneAtATime", fsdp::PipelineSchedule::OneAtATime},
    {"AllForwardAllBackward", fsdp::PipelineSchedule::AllForwardAllBackward},
    {"OneForwardOneBackward", fsdp::PipelineSchedule::OneForwardOneBackward},
    {"Interleaved", fsdp::PipelineSchedule::Interleaved},
    {"ZeroBubble", fsdp::PipelineSchedule::ZeroBubble}};

const std::map<std::string, fsdp::Strategy> kStrategies = {{"FullShard", fsdp::Strategy::FullShard},
                                                           {"ShardGradOp", fsdp::Strategy::ShardGradOp}};

struct Arguments {
  contestant::Training training;
  std::string backend = "auto";
  int micro_batches = 1;
  int data = 1;  // ranks with the same stage
  fsdp::Options sharding = {.units = fsdp::units_of<models::Gpt2BlockImpl>()};
  fsdp::PipelineOptions pipeline;
};

// Tokens [batch, length] to [batch, length, width].
struct EmbeddingImpl : torch::nn::Module {
  explicit EmbeddingImpl(const models::ModelConfig& config)
      : wte(register_module("wte", torch::nn::Embedding(config.vocabulary, config.width))),
        wpe(register_module("wpe", torch::nn::Embedding(config.context, config.width))) {}
  torch::Tensor forward(const torch::Tensor& tokens) {
    return wte(tokens) + wpe(torch::arange(tokens.size(1), tokens.options()));
  }

  torch::nn::Embedding wte, wpe;
};

// [batch, length, width] to logits [batch, length, vocabulary].
struct HeadImpl : torch::nn::Module {
  explicit HeadImpl(const models::ModelConfig& config)
      : ln_f(register_module("ln_f", torch::nn::LayerNorm(torch::nn::LayerNormOptions({config.width})))),
        out(register_module(
            "out", torch::nn::Linear(torch::nn::LinearOptions(config.width, config.vocabulary).bias(false)))) {}
  torch::Tensor forward(const torch::Tensor& x) { return out(ln_f(x)); }

  torch::nn::LayerNorm ln_f;
  torch::nn::Linear out;
};

std::vector<fsdp::PipelineBlock> blocks_of(const models::ModelConfig& config) {
  std::vector<fsdp::PipelineBlock> blocks = {fsdp::pipeline_block<EmbeddingImpl>("embedding", config)};
  for (int64_t i = 0; i < config.layers; ++i)
    blocks.push_back(fsdp::pipeline_block<models::Gpt2BlockImpl>("h." + std::to_string(i), config));
  blocks.push_back(fsdp::pipeline_block<HeadImpl>("head", config));
  return blocks;
}

// The name in the file of weights: "h.0.ln_1.bias" is "transformer.h.0.ln_1.bias", "head.ln_f.bias" is
// "transformer.ln_f.bias".
std::string name_in_file(const std::string& name) {
  if (name == "head.out.weight") return "transformer.wte.weight";
  return "transformer." + (name.starts_with("h.") ? name : name.substr(name.find('.') + 1));
}

torch::Tensor loss_of(const torch::Tensor& logits, const torch::Tensor& targets) {
  return torch::nn::functional::cross_entropy(logits.flatten(0, 1), targets.flatten());
}

class PipelineTraining {
 public:
  PipelineTraining(fsdp::World& world, const Arguments& arguments)
      : mesh_(world, {{"pipeline", world.size() / arguments.data}, {"data", arguments.data}}),
        pipeline_(blocks_of(arguments.training.model), mesh_["pipeline"], arguments.pipeline),
        optimizer_(optimizer_of(arguments)) {
    for (int i = 0; i < arguments.micro_batches; ++i) {
      const int number = i * arguments.data + mesh_.coordinate("data");
      const contestant::Batch batch = contestant::make_batch(arguments.training, number);
      inputs_.push_back(batch.tokens);
      targets_.push_back(batch.targets);
    }
  }

  double step() {
    const double loss = pipeline_.step(inputs_, targets_, loss_of);
    optimizer_();
    return loss;
  }

  Json steps(int64_t count) {
    Json idle = Json::array(), of_passes = Json::array(), formula = Json::array();
    Json answer = contestant::take_steps(count, [&] {
      const double loss = step();
      idle.push_back(pipeline_.report().idle_share);
      of_passes.push_back(pipeline_.idle_share_of_passes());
      formula.push_back(pipeline_.report().idle_share_formula);
      return loss;
    });
    answer["idle"] = idle;
    answer["idle_of_passes"] = of_passes;
    answer["idle_formula"] = formula;
    return answer;
  }

 private:
  // Takes a step, and removes the gradients.
  std::function<void()> optimizer_of(const Arguments& arguments) {
    const double lr = arguments.training.lr;
    std::vector<torch::Tensor> parameters = loaded(arguments.training);
    if (arguments.data == 1) {
      const auto whole = std::make_shared<contestant::ShareOptimizer>(std::move(parameters), /*ranks=*/1, lr);
      return [whole] { whole->step(); };
    }
    sharded_.emplace(fsdp::shard(pipeline_.stage(), mesh_, "data", arguments.sharding));
    const auto adam = std::make_shared<fsdp::AdamW>(*sharded_, fsdp::AdamWOptions{.lr = lr});
    return [adam] {
      adam->step();
      adam->zero_grad();
    };
  }

  // This rank's parameters, with the values of the file.
  std::vector<torch::Tensor> loaded(const contestant::Training& training) {
    const auto weights = fsdp::checkpoint::read_safetensors(training.weights);
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> parameters;
    for (auto& parameter : pipeline_.stage().named_parameters())
      parameters.push_back(parameter.value().copy_(weights.at(name_in_file(parameter.key()))));
    return parameters;
  }

  fsdp::Mesh mesh_;
  fsdp::Pipeline pipeline_;
  std::optional<fsdp::ShardedModel> sharded_;
  std::function<void()> optimizer_;
  fsdp::Tensors inputs_, targets_;
};

void train(fsdp::World& world, const Arguments& arguments, contestant::Conversation& conversation) {
  std::optional<PipelineTraining> training;
  conversation.answer({
      {"build",
       [&](const Json&) {
         training.emplace(world, arguments);
         return Json::object();
       }},
      {"steps", [&](const Json& command) { return training->steps(command.at("count")); }},
  });
}

}  // namespace

int main(int count, char** words) {
  Arguments arguments;
  CLI::App app("A step of a pipeline, told over standard input what to do; see bench/README.md.");
  contestant::add_options(app, arguments.training);
  app.add_option("--backend", arguments.backend, "of the messages");
  app.add_option("--schedule", arguments.pipeline.schedule, "of a rank's passes")
      ->transform(CLI::Transformer(kSchedules));
  app.add_option("--stages-per-rank", arguments.pipeline.stages_per_rank, "stages of each rank");
  app.add_option("--cuts", arguments.pipeline.cuts, "blocks of each stage, embedding and head included");
  app.add_option("--micro-batches", arguments.micro_batches, "of a rank in a step");
  app.add_option("--data", arguments.data, "ranks with the same stage, which is sharded among them");
  app.add_option("--strategy", arguments.sharding.strategy, "what is sharded")
      ->transform(CLI::Transformer(kStrategies));
  CLI11_PARSE(app, count, words);

  contestant::Conversation conversation;
  return fsdp::launch({.backend = arguments.backend},
                      [&](fsdp::World& world) { train(world, arguments, conversation); });
}
