#include "models/pipeline_blocks.h"

#include <fsdp/error.h>
#include <torch/torch.h>

#include <utility>

#include "models/block_costs.h"
#include "models/gpt2.h"
#include "models/head.h"
#include "models/language_model.h"
#include "models/llama.h"
#include "models/parts.h"

namespace models {

using torch::Tensor;
using torch::nn::Module;

struct PipelinedModel::State {
  ModelConfig config;
  Division division;
  Recomputation recomputation;
  std::vector<ModelBlock> blocks = models::blocks(config);
  // While a pipeline makes its blocks, without memory: they are parts of it.
  std::shared_ptr<LanguageModel> whole = nullptr;
  std::weak_ptr<Module> head = {};  // of the last stage
  Pass pass = Pass();

  std::shared_ptr<Module> make(int block);
};

// The first block makes them all. Behind the last one, a rank keeps its own blocks alone.
std::shared_ptr<Module> PipelinedModel::State::make(int block) {
  if (block == 0) {
    whole = make_model(config, division);
    whole->set_recomputation(recomputation);
  }
  std::shared_ptr<Module> module = whole->block(block);
  if (block + 1 < std::ssize(blocks)) return module;
  whole = nullptr;
  if (module == nullptr) module = make_tied_head(config, division);
  head = module;
  return module;
}

PipelinedModel::PipelinedModel(const ModelConfig& config, const Division& division, const Recomputation& recomputation)
    : state_(std::make_shared<State>(State{config, division.tensor ? division : Division(), recomputation})) {
  check_model(config, state_->division);
}

std::vector<fsdp::PipelineBlock> PipelinedModel::blocks() const {
  std::vector<BlockForward> forwards = block_forwards(state_->config, state_->division);
  forwards.emplace_back([](Module&, Tensor x, Pass&) { return x; });  // `loss` multiplies
  const std::vector<double> costs = block_costs(state_->config, state_->config.context);
  std::vector<fsdp::PipelineBlock> blocks;
  for (size_t i = 0; i < forwards.size(); ++i) {
    const auto forward = [state = state_, forward = std::move(forwards[i])](Module& module,
                                                                            const fsdp::Tensors& inputs) {
      return fsdp::Tensors{forward(module, inputs.at(0), state->pass)};
    };
    const auto make = [state = state_, block = static_cast<int>(i)] { return state->make(block); };
    blocks.push_back({.name = state_->blocks.at(i).name, .make = make, .forward = forward, .cost = costs.at(i)});
  }
  if (state_->config.tied_embeddings) blocks.back().shares = {{"weight", blocks.front().name + ".weight"}};
  return blocks;
}

Tensor PipelinedModel::head() const {
  const std::shared_ptr<Module> module = state_->head.lock();
  if (module == nullptr)
    throw fsdp::Error("this rank has no head, which belongs to the last stage. Call it on the ranks of that stage.");
  return head_weight(*module);
}

Tensor PipelinedModel::loss(const Tensor& output, const Tensor& targets) const {
  return head_loss(output, head(), targets, state_->division);
}

Tensor PipelinedModel::next_token_logits(const Tensor& output, int64_t position) const {
  const torch::NoGradGuard no_grad;
  return head_logits(output.select(1, position), head(), state_->config, state_->division);
}

Tensor PipelinedModel::padded(const Tensor& tokens) const { return padded_sequence(tokens, state_->division); }

void PipelinedModel::freeze(Module& stage, const std::set<std::string>& names) const {
  const bool is_tied = state_->config.tied_embeddings;
  for (auto& parameter : stage.named_parameters()) {
    const bool is_copy = is_tied && parameter.key() == state_->blocks.back().name + ".weight";
    const std::string name = is_copy ? state_->blocks.front().name + ".weight" : parameter.key();
    if (names.contains(name)) parameter.value().set_requires_grad(false);
  }
}

fsdp::UnitPolicy units_of_layers(const Module& stage) {
  size_t layers = 0, in_layers = 0;
  for (const auto& module : stage.modules(/*include_self=*/false)) {
    if (module->as<Gpt2BlockImpl>() == nullptr && module->as<LlamaBlockImpl>() == nullptr) continue;
    ++layers;
    in_layers += module->parameters().size();
  }
  const bool is_one = layers == 0 || (layers == 1 && in_layers == stage.parameters().size());
  return is_one ? fsdp::one_unit() : fsdp::units_of<Gpt2BlockImpl, LlamaBlockImpl>();
}

}  // namespace models
