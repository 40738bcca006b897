#include "models/language_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/deferred_init.h>
#include <fsdp/error.h>
#include <fsdp/loss.h>

#include "models/gpt2.h"
#include "models/llama.h"

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

torch::Tensor LanguageModel::forward(const torch::Tensor& tokens) {
  check(tokens);
  return torch::linear(features(tokens, nullptr), head());
}

torch::Tensor LanguageModel::next_token_logits(const torch::Tensor& tokens) {
  check(tokens);
  return torch::linear(features(tokens, nullptr).select(1, -1), head());
}

torch::Tensor LanguageModel::next_token_logits(const torch::Tensor& tokens, KeyValueCache& cache) {
  torch::NoGradGuard no_grad;
  check(tokens, cache.length());
  torch::Tensor logits = torch::linear(features(tokens, &cache).select(1, -1), head());
  cache.advance(tokens.size(1));
  return logits;
}

torch::Tensor LanguageModel::loss(const torch::Tensor& tokens, const torch::Tensor& targets) {
  check(tokens);
  return fsdp::linear_cross_entropy(features(tokens, nullptr), head(), targets, {.check_targets = false});
}

namespace {

std::shared_ptr<LanguageModel> make_base(const ModelConfig& config) {
  if (config.family == Family::Gpt2) return std::make_shared<Gpt2Impl>(config);
  return std::make_shared<LlamaImpl>(config);
}

// After the base has its first weights, which are therefore those of a model without adapters.
void add_adapters(LanguageModel& model, const Lora& lora) {
  for (const auto& module : model.named_modules()) {
    auto* linear = module.value()->as<AdaptableLinearImpl>();
    if (linear != nullptr && lora.is_for(module.key())) linear->add_adapter(lora);
  }
}

}  // namespace

std::shared_ptr<LanguageModel> make_model(const ModelConfig& config) {
  const std::vector<std::string> found = problems(config);
  if (!found.empty()) throw fsdp::Error(fmt::format("no model can have this config: {}", fmt::join(found, " ")));
  const std::shared_ptr<LanguageModel> model = make_base(config);
  if (config.lora) add_adapters(*model, *config.lora);
  return model;
}

std::shared_ptr<LanguageModel> make_deferred_model(const ModelConfig& config, torch::Device device) {
  return fsdp::deferred_init([&] {
    const std::shared_ptr<LanguageModel> model = make_model(config);
    model->to(device);
    return model;
  });
}

}  // namespace models
