#include "pipeline/small_gpt.h"

#include <ATen/CPUGeneratorImpl.h>

#include <map>

namespace fsdp::testing_models {

namespace {

namespace nn = torch::nn;
namespace functional = torch::nn::functional;

struct WordsImpl : nn::Module {
  explicit WordsImpl(SmallGpt gpt) : drop(gpt.dropout) {
    table = register_module("table", nn::Embedding(gpt.vocabulary, gpt.width));
    places = register_parameter("places", torch::randn({gpt.length, gpt.width}));
    register_module("drop", drop);
  }
  torch::Tensor forward(const torch::Tensor& tokens) { return drop(table(tokens) + places); }

  nn::Embedding table = nullptr;
  torch::Tensor places;
  nn::Dropout drop;
};

struct LayerImpl : nn::Module {
  explicit LayerImpl(SmallGpt gpt) : drop(gpt.dropout) {
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({gpt.width})));
    mixed = register_module("mixed", nn::Linear(gpt.width, 3 * gpt.width));
    out = register_module("out", nn::Linear(gpt.width, gpt.width));
    register_module("drop", drop);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto parts = mixed(norm(x)).chunk(3, -1);
    const auto attended = torch::softmax(parts[0].matmul(parts[1].transpose(-1, -2)), -1).matmul(parts[2]);
    return x + drop(out(attended));
  }

  nn::LayerNorm norm = nullptr;
  nn::Linear mixed = nullptr, out = nullptr;
  nn::Dropout drop;
};

struct LogitsImpl : nn::Module {
  explicit LogitsImpl(SmallGpt gpt) {
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({gpt.width})));
    out = register_module("out", nn::Linear(nn::LinearOptions(gpt.width, gpt.vocabulary).bias(false)));
  }
  torch::Tensor forward(const torch::Tensor& x) { return out(norm(x)); }

  nn::LayerNorm norm = nullptr;
  nn::Linear out = nullptr;
};

torch::Tensor tokens(const SmallGpt& model, int step, int micro_batch, int64_t rows) {
  const auto numbers = torch::arange(rows * (model.length + 1), torch::kLong) * 7 + step * 13 + micro_batch * 5;
  return (numbers * numbers % 101 % model.vocabulary).view({rows, model.length + 1});
}

uint64_t draw() {
  auto generator = at::detail::getDefaultCPUGenerator();
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

}  // namespace

std::vector<PipelineBlock> blocks_of(const SmallGpt& model) {
  std::vector<PipelineBlock> blocks{pipeline_block<WordsImpl>("words", model)};
  for (int i = 0; i < model.layers; ++i)
    blocks.push_back(pipeline_block<LayerImpl>("layers." + std::to_string(i), model));
  blocks.push_back(pipeline_block<LogitsImpl>("logits", model));
  if (model.tied) blocks.back().shares = {{"out.weight", "words.table.weight"}};
  return blocks;
}

torch::Tensor tokens_of(const SmallGpt& model, int step, int micro_batch, int64_t rows) {
  return tokens(model, step, micro_batch, rows).slice(1, 0, model.length);
}

torch::Tensor next_tokens_of(const SmallGpt& model, int step, int micro_batch, int64_t rows) {
  return tokens(model, step, micro_batch, rows).slice(1, 1);
}

torch::Tensor token_loss(const torch::Tensor& logits, const torch::Tensor& targets) {
  return functional::cross_entropy(logits.flatten(0, 1), targets.flatten());
}

Tensors inputs_of(const SmallGpt& model, const StepsOf& steps, int call) {
  Tensors inputs;
  for (int i = 0; i < steps.micro_batches; ++i) inputs.push_back(tokens_of(model, call, i, steps.rows(i)));
  return inputs;
}

Tensors targets_of(const SmallGpt& model, const StepsOf& steps, int call) {
  Tensors targets;
  for (int i = 0; i < steps.micro_batches; ++i) targets.push_back(next_tokens_of(model, call, i, steps.rows(i)));
  return targets;
}

Trained train_plainly(const SmallGpt& model, const StepsOf& steps, uint64_t seed) {
  torch::manual_seed(seed);
  const auto blocks = blocks_of(model);
  std::vector<std::shared_ptr<nn::Module>> modules;
  for (const PipelineBlock& block : blocks) modules.push_back(block.make());
  if (model.tied) {
    std::dynamic_pointer_cast<LogitsImpl>(modules.back())->out->weight =
        std::dynamic_pointer_cast<WordsImpl>(modules.front())->table->weight;
  }
  Trained trained;
  std::vector<torch::Tensor> parameters;
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (const auto& parameter : modules[i]->named_parameters()) {
      const std::string name = blocks[i].name + "." + parameter.key();
      if (model.tied && name == "logits.out.weight") continue;
      trained.weights.emplace_back(name, parameter.value());
      parameters.push_back(parameter.value());
    }
  }
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(1e-2));
  for (int call = 0; call < steps.steps * steps.calls; ++call) {
    const uint64_t number = draw();
    const torch::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
    const Tensors inputs = inputs_of(model, steps, call), targets = targets_of(model, steps, call);
    double sum = 0;
    for (int i = 0; i < steps.micro_batches; ++i) {
      torch::Tensor x = inputs[i];
      for (size_t block = 0; block < blocks.size(); ++block) {
        seed_micro_batch(number, i, static_cast<int64_t>(block));
        x = blocks[block].forward(*modules[block], {x}).at(0);
      }
      const torch::Tensor loss = token_loss(x, targets[i]);
      sum += loss.item<double>();
      (loss / steps.micro_batches).backward();
    }
    trained.losses.push_back(sum / steps.micro_batches);
    at::Generator(at::detail::getDefaultCPUGenerator()).set_state(state);
    if ((call + 1) % steps.calls != 0) continue;
    optimizer.step();
    optimizer.zero_grad();
  }
  trained.generator = at::detail::getDefaultCPUGenerator().get_state();
  return trained;
}

}  // namespace fsdp::testing_models
