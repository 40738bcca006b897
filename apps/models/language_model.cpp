#include "models/language_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/deferred_init.h>
#include <fsdp/error.h>

#include "models/adaptable_linear.h"
#include "models/block_costs.h"
#include "models/division_problems.h"
#include "models/gpt2.h"
#include "models/head.h"
#include "models/llama.h"
#include "models/parts.h"

namespace models {

void LanguageModel::check(const torch::Tensor& tokens, int64_t before) const {
  if (tokens.dim() != 2 || tokens.scalar_type() != torch::kInt64 || tokens.size(1) < 1) {
    throw fsdp::Error(fmt::format("the tokens are {} of shape {}, expected Long of shape [batch, length]",
                                  toString(tokens.scalar_type()), tokens.sizes().vec()));
  }
  const int64_t length = before + tokens.size(1);
  if (length > config_.context) {
    throw fsdp::Error(
        fmt::format("a sequence of {} tokens is longer than the model's context of {}. Use shorter sequences, or a "
                    "model with a larger context.",
                    length, config_.context));
  }
}

void LanguageModel::set_recomputation(const Recomputation& recomputation) {
  const auto again = recomputation.keeps_products ? fsdp::KeptResults::Products : fsdp::KeptResults::None;
  int64_t layer = 0;
  for (const auto& module : modules(/*include_self=*/false)) {
    auto* block = dynamic_cast<fsdp::RecomputedModule*>(module.get());
    if (block == nullptr) continue;
    block->set_recomputation({.keep = recomputation.of(layer++, config_.layers) ? again : fsdp::KeptResults::All});
  }
}

void LanguageModel::set_blocks(std::vector<BlockForward> forwards) {
  forwards_ = std::move(forwards);
  const auto all = named_modules("", /*include_self=*/false);
  for (const ModelBlock& block : models::blocks(config_))
    blocks_.push_back(all.contains(block.name) ? all[block.name] : nullptr);
  set_recomputation({});
}

torch::Tensor LanguageModel::features(const torch::Tensor& tokens, KeyValueCache* cache,
                                      const BeforeBlock& before_block) {
  Pass pass(cache);
  torch::Tensor x = tokens;
  for (size_t block = 0; block < forwards_.size(); ++block) {
    if (before_block) before_block(static_cast<int>(block));
    x = forwards_[block](*blocks_[block], std::move(x), pass);
  }
  return x;
}

torch::Tensor LanguageModel::features_of_any(const torch::Tensor& tokens) {
  const torch::Tensor padded = padded_sequence(tokens, division_);
  const torch::Tensor whole = features(padded, nullptr);
  return padded.is_same(tokens) ? whole : whole.narrow(1, 0, tokens.size(1));
}

torch::Tensor LanguageModel::head() const {
  return head_weight(*(config_.tied_embeddings ? blocks_.front() : blocks_.back()));
}

torch::Tensor LanguageModel::forward(const torch::Tensor& tokens) {
  check(tokens);
  return head_logits(features_of_any(tokens), head(), config_, division_);
}

torch::Tensor LanguageModel::next_token_logits(const torch::Tensor& tokens) {
  check(tokens);
  return head_logits(features_of_any(tokens).select(1, -1), head(), config_, division_);
}

torch::Tensor LanguageModel::next_token_logits(const torch::Tensor& tokens, KeyValueCache& cache) {
  torch::NoGradGuard no_grad;
  check(tokens, cache.length());
  torch::Tensor logits;
  if (division_.tensor && division_.sequence_parallel) {
    logits = next_token_logits(cache.append_tokens(tokens));
  } else {
    logits = head_logits(features(tokens, &cache).select(1, -1), head(), config_, division_);
  }
  cache.advance(tokens.size(1));
  return logits;
}

torch::Tensor LanguageModel::loss(const torch::Tensor& tokens, const torch::Tensor& targets,
                                  const BeforeBlock& before_block) {
  check(tokens);
  const torch::Tensor input = features(tokens, nullptr, before_block);
  if (before_block) before_block(static_cast<int>(blocks_.size()));
  return head_loss(input, head(), targets, division_);
}

void check_model(const ModelConfig& config, const Division& division) {
  std::vector<std::string> found = problems(config);
  if (is_for_plans_alone(config.family))
    found.push_back(fmt::format("a {} is for plans alone.", name_of(config.family)));
  if (!found.empty()) throw fsdp::Error(fmt::format("no model can have this config: {}", fmt::join(found, " ")));
  if (!division.tensor) return;
  found = division_problems(
      config,
      {.ranks = division.tensor->size(), .parts = division.parts, .sequence_parallel = division.sequence_parallel});
  if (!found.empty()) throw fsdp::Error(fmt::format("the model cannot be divided: {}", fmt::join(found, " ")));
}

namespace {

std::shared_ptr<LanguageModel> make_base(const ModelConfig& config, const Division& division) {
  if (config.family == Family::Gpt2) return std::make_shared<Gpt2Impl>(config, division);
  return std::make_shared<LlamaImpl>(config, division);
}

// After the base has its first weights, which are therefore those of a model without adapters.
void add_adapters(LanguageModel& model, const Lora& lora) {
  for (const auto& module : model.named_modules()) {
    auto* linear = module.value()->as<AdaptableLinearImpl>();
    if (linear != nullptr && lora.is_for(module.key())) linear->add_adapter(lora);
  }
}

}  // namespace

std::shared_ptr<LanguageModel> make_model(const ModelConfig& config, const Division& division) {
  check_model(config, division);
  const std::shared_ptr<LanguageModel> model = make_base(config, division.tensor ? division : Division());
  if (config.lora) add_adapters(*model, *config.lora);
  return model;
}

std::shared_ptr<LanguageModel> make_deferred_model(const ModelConfig& config, torch::Device device,
                                                   const Division& division) {
  return fsdp::deferred_init([&] {
    const std::shared_ptr<LanguageModel> model = make_model(config, division);
    model->to(device);
    return model;
  });
}

}  // namespace models
