// Small language models of both families, with all that a division or a pipeline could get wrong: dropout, biases,
// fewer key heads than parts, a vocabulary that no number of parts divides, parts of an odd width.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <utility>

#include "models/language_model.h"
#include "support/drawn.h"

namespace models {

inline constexpr int64_t kSmallVocabulary = 61, kSmallContext = 12;

struct SmallModel {
  Family family = Family::Gpt2;
  bool tied = true;
  double dropout = 0.1;
  // Parts of parameters are multiples of 64 elements, without which norms and optimizers have other bits
  // (docs/determinism.md).
  bool is_even = false;
  bool has_adapters = false;

  ModelConfig config() const {
    const bool is_gpt2 = family == Family::Gpt2;
    ModelConfig config{.family = family, .vocabulary = kSmallVocabulary, .context = kSmallContext, .width = 32};
    config.layers = 3;
    config.heads = 4;
    config.mlp_width = 72;  // 18 in each of 4 parts: no multiple of a vector
    config.tied_embeddings = tied;
    config.attention_dropout = dropout;
    config.initializer_range = 0.1;  // large enough that every gradient counts
    if (is_even) config.width = config.mlp_width.emplace(256);
    if (is_gpt2) config.embedding_dropout = config.residual_dropout = dropout;
    if (!is_gpt2) config.key_value_heads = 2, config.attention_bias = config.mlp_bias = true;
    if (has_adapters) config.lora = Lora{.rank = 4, .dropout = 0.1, .targets = {"c_attn", "q_proj", "c_proj"}};
    return config;
  }
};

inline std::string name_of_case(const ::testing::TestParamInfo<SmallModel>& info) {
  return std::string(info.param.family == Family::Gpt2 ? "Gpt2" : "Llama") + (info.param.tied ? "Tied" : "Untied");
}

class SmallModels : public ::testing::TestWithParam<SmallModel> {};

inline auto all_small_models() {
  return fsdp::testing::drawn<SmallModel>({{Family::Gpt2}, {Family::Llama, false}},
                                          {{Family::Gpt2, false}, {Family::Llama}});
}

inline std::shared_ptr<LanguageModel> make_small(const SmallModel& model, const Division& division = {}) {
  torch::manual_seed(1);
  return make_model(model.config(), division);
}

struct SmallBatch {
  torch::Tensor tokens, targets;  // [rows, length]
};

inline SmallBatch small_batch(int64_t number, int64_t length = kSmallContext) {
  const int64_t rows = 1 + number % 3;
  const auto numbers = torch::arange(rows * (length + 1), torch::kLong) * 7 + number * 13;
  const torch::Tensor all = (numbers * numbers % 101 % kSmallVocabulary).view({rows, length + 1});
  return {all.slice(1, 0, length).contiguous(), all.slice(1, 1).contiguous()};
}

}  // namespace models
