#include "models/block_costs.h"

#include <gmock/gmock.h>

#include <numeric>
#include <string>

#include "models/divided_parameters.h"

namespace models {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;

std::vector<std::string> names_of(const std::vector<ModelBlock>& blocks) {
  std::vector<std::string> names;
  for (const ModelBlock& block : blocks) names.push_back(block.name);
  return names;
}

TEST(ModelBlocks, AreEmbeddingsLayersNormAndHead) {
  EXPECT_THAT(names_of(blocks({.layers = 2})), ElementsAre("transformer.wte", "transformer.wpe", "transformer.h.0",
                                                           "transformer.h.1", "transformer.ln_f", "lm_head"));
  const ModelConfig llama{.family = Family::Llama, .layers = 1, .tied_embeddings = false};
  EXPECT_THAT(names_of(blocks(llama)), ElementsAre("model.embed_tokens", "model.layers.0", "model.norm", "lm_head"));
}

// A tied head has a copy of the embedding; all else is there once.
TEST(ModelBlocks, HaveTheParametersOfTheModel) {
  for (const bool tied : {true, false}) {
    const ModelConfig config{.vocabulary = 11, .width = 4, .layers = 2, .heads = 2, .tied_embeddings = tied};
    int64_t numel = 0;
    for (const ModelBlock& block : blocks(config)) {
      for (const Parameter& parameter : block.parameters) numel += parameter.numel();
    }
    EXPECT_EQ(numel, parameter_numel(config) + (tied ? 11 * 4 : 0));
    EXPECT_EQ(blocks(config).back().tied_to, tied ? "transformer.wte.weight" : "");
  }
}

TEST(ModelBlocks, CostTheOperationsOfTheModel) {
  for (const Family family : {Family::Gpt2, Family::Llama}) {
    for (const bool tied : {true, false}) {
      const ModelConfig config{.family = family,
                               .vocabulary = 11,
                               .context = 7,
                               .width = 8,
                               .layers = 3,
                               .heads = 2,
                               .tied_embeddings = tied};
      const std::vector<double> costs = block_costs(config, 5);
      const double lookups = (family == Family::Gpt2 ? 2 : 1) * 2 * 8;
      EXPECT_EQ(std::accumulate(costs.begin(), costs.end(), 0.0), flops_per_token(config, 5) + lookups);
      EXPECT_THAT(costs, Each(Gt(0.0)));
    }
  }
}

std::vector<int64_t> shape_on(const ModelConfig& config, const std::string& name, const TensorRank& place) {
  for (const ModelBlock& block : blocks(config)) {
    for (const Parameter& parameter : block.parameters) {
      if (parameter.name == name) return part_of(parameter, place).shape;
    }
  }
  return {};
}

TEST(DividedParameters, HaveRowsOrColumnsOfARank) {
  const ModelConfig config{.vocabulary = 11, .context = 7, .width = 8, .layers = 1, .heads = 4};
  const TensorRank second{.parts = 4, .ranks = 2, .rank = 1};
  const std::string layer = "transformer.h.0.";
  EXPECT_THAT(shape_on(config, layer + "attn.c_attn.weight", second), ElementsAre(3 * 4, 8));
  EXPECT_THAT(shape_on(config, layer + "attn.c_attn.bias", second), ElementsAre(3 * 4));
  EXPECT_THAT(shape_on(config, layer + "attn.c_proj.weight", second), ElementsAre(8, 4));
  EXPECT_THAT(shape_on(config, layer + "attn.c_proj.bias", second), ElementsAre(8));
  EXPECT_THAT(shape_on(config, layer + "mlp.c_fc.weight", second), ElementsAre(16, 8));
  EXPECT_THAT(shape_on(config, layer + "ln_1.weight", second), ElementsAre(8));
  EXPECT_THAT(shape_on(config, "transformer.wpe.weight", second), ElementsAre(7, 8));
  // Four parts of 11 entries: 3, 3, 3 and 2.
  EXPECT_THAT(shape_on(config, "transformer.wte.weight", {4, 2, 0}), ElementsAre(6, 8));
  EXPECT_THAT(shape_on(config, "transformer.wte.weight", second), ElementsAre(5, 8));
  EXPECT_THAT(shape_on(config, "lm_head.weight", second), ElementsAre(5, 8));
}

// A rank holds each of its heads once.
TEST(DividedParameters, ShareFewHeads) {
  const ModelConfig config{.family = Family::Llama, .width = 16, .layers = 1, .heads = 8, .key_value_heads = 2};
  const std::string keys = "model.layers.0.self_attn.k_proj.weight";
  EXPECT_THAT(shape_on(config, keys, {8, 8, 3}), ElementsAre(2, 16));
  EXPECT_THAT(shape_on(config, keys, {8, 2, 1}), ElementsAre(2, 16));
  EXPECT_THAT(shape_on(config, keys, {8, 1, 0}), ElementsAre(4, 16));
  EXPECT_THAT(shape_on(config, "model.layers.0.self_attn.q_proj.weight", {8, 8, 3}), ElementsAre(2, 16));
}

TEST(DividedParameters, OfAdaptersAreThoseOnTheSideOfTheLayer) {
  ModelConfig config{.width = 8, .layers = 1, .heads = 4};
  config.lora = Lora{.rank = 3, .targets = {"c_attn", "attn.c_proj"}};
  const TensorRank place{.parts = 2, .ranks = 2, .rank = 0};
  const std::string attention = "transformer.h.0.attn.";
  EXPECT_THAT(shape_on(config, attention + "c_attn.lora_A.weight", place), ElementsAre(3, 8));
  EXPECT_THAT(shape_on(config, attention + "c_attn.lora_B.weight", place), ElementsAre(12, 3));
  EXPECT_THAT(shape_on(config, attention + "c_proj.lora_A.weight", place), ElementsAre(3, 4));
  EXPECT_THAT(shape_on(config, attention + "c_proj.lora_B.weight", place), ElementsAre(8, 3));
}

}  // namespace
}  // namespace models
