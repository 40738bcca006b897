// Runs whose graphs are compared with LibTorch.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "options/options.h"
#include "support/drawn.h"

namespace trainer {

struct NamedModel {
  const char* name;
  models::ModelConfig config;
};
inline void PrintTo(const NamedModel& model, std::ostream* out) { *out << model.name; }

inline std::vector<NamedModel> sample_models() {
  const models::ModelConfig gpt2 = {.vocabulary = 61, .context = 8, .width = 20, .layers = 4, .heads = 2};
  models::ModelConfig dropping = gpt2;
  dropping.attention_dropout = dropping.residual_dropout = dropping.embedding_dropout = 0.1;
  models::ModelConfig untied = gpt2;
  untied.tied_embeddings = false;
  untied.mlp_width = 36;
  untied.residual_dropout = 0.1;
  models::ModelConfig one_head = dropping;
  one_head.heads = 1;
  models::ModelConfig llama = {
      .family = models::Family::Llama, .vocabulary = 300, .context = 24, .width = 36, .layers = 3, .heads = 6};
  models::ModelConfig dropping_llama = llama;
  dropping_llama.attention_dropout = 0.1;
  models::ModelConfig shared = llama;
  shared.key_value_heads = 2;
  shared.head_width = 10;
  shared.tied_embeddings = false;
  shared.attention_bias = shared.mlp_bias = true;
  models::ModelConfig dropping_shared = shared;
  dropping_shared.attention_dropout = 0.1;
  return {{"gpt2", gpt2},
          {"gpt2 with dropout", dropping},
          {"gpt2, untied", untied},
          {"gpt2 with one head and dropout", one_head},
          {"llama", llama},
          {"llama with dropout", dropping_llama},
          {"llama with shared keys", shared},
          {"llama with shared keys and dropout", dropping_shared}};
}

// For INSTANTIATE_TEST_SUITE_P. The model with the most features of each family is tried always.
inline auto drawn_sample_models() {
  std::vector<NamedModel> always, others;
  for (const NamedModel& model : sample_models()) {
    const std::string name = model.name;
    const bool has_most_features =
        name == "gpt2 with one head and dropout" || name == "llama with shared keys and dropout";
    (has_most_features ? always : others).push_back(model);
  }
  return fsdp::testing::drawn(always, others);
}
inline std::string name_of_sample(const testing::TestParamInfo<NamedModel>& info) {
  std::string name = info.param.name;
  std::erase(name, ',');
  std::ranges::replace(name, ' ', '_');
  return name;
}

// Calls `expect` with runs of a model.
template <typename Expect>
void for_each_run(const NamedModel& model, const Expect& expect) {
  for (const char* recomputed : {"none", "all", "selective", "2"}) {
    for (const char* dtype : {"fp32", "bf16"}) {
      for (const int64_t batch : {1, 3}) {
        SCOPED_TRACE(fmt::format("{}, {} recomputed, {}, batch {}", model.name, recomputed, dtype, batch));
        RunOptions options;
        options.model = model.config;
        options.activation_checkpoint = recomputed;
        options.param_dtype = dtype;
        options.batch = batch;
        expect(options);
      }
    }
  }
}

}  // namespace trainer
