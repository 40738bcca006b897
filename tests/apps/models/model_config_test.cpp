#include "models/model_config.h"

#include <gmock/gmock.h>

#include <limits>
#include <set>
#include <string>

#include "models/model_sizes.h"

namespace models {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

int64_t numel_of_size(const std::string& name) { return parameter_numel(*config_of_size(name)); }

TEST(ModelSizes, HaveTheirPublishedNumbersOfParameters) {
  EXPECT_EQ(numel_of_size("gpt2"), 124'439'808);
  EXPECT_EQ(numel_of_size("gpt2-medium"), 354'823'168);
  EXPECT_EQ(numel_of_size("gpt2-large"), 774'030'080);
  EXPECT_EQ(numel_of_size("gpt2-xl"), 1'557'611'200);
  EXPECT_EQ(numel_of_size("llama-1b"), 1'235'814'400);
  EXPECT_EQ(numel_of_size("llama-7b"), 6'738'415'616);
  EXPECT_EQ(numel_of_size("llama-8b"), 8'030'261'248);
}

TEST(ModelSizes, CanAllBeBuilt) {
  EXPECT_EQ(size_names().size(), 11u);
  for (const std::string& name : size_names()) {
    ASSERT_TRUE(config_of_size(name)) << name;
    EXPECT_THAT(problems(*config_of_size(name)), IsEmpty()) << name;
    EXPECT_EQ(name.starts_with("llama"), config_of_size(name)->family == Family::Llama);
  }
  EXPECT_FALSE(config_of_size("gpt3"));
}

TEST(ModelSizes, TheDefaultIsGpt2Tiny) { EXPECT_EQ(*config_of_size("gpt2-tiny"), ModelConfig{}); }

TEST(ModelConfig, WhatIsNotGivenFollowsFromTheRest) {
  ModelConfig config{.width = 96, .heads = 6};
  EXPECT_EQ(config.key_value_heads_or_default(), 6);
  EXPECT_EQ(config.head_width_or_default(), 16);
  EXPECT_EQ(config.mlp_width_or_default(), 4 * 96);
  config.family = Family::Llama;
  EXPECT_EQ(config.mlp_width_or_default(), 8 * 96 / 3);
  config.width = 100;
  EXPECT_EQ(config.mlp_width_or_default(), 288);  // the next multiple of 32 above 266.7
}

TEST(ModelConfig, AllProblemsAreFoundAtOnce) {
  EXPECT_THAT(problems({.vocabulary = 0,
                        .width = 10,
                        .layers = -1,
                        .heads = 3,
                        .mlp_width = 0,
                        .norm_epsilon = kNaN,
                        .residual_dropout = 1}),
              UnorderedElementsAre("vocabulary is 0; it must be at least 1.", "layers is -1; it must be at least 1.",
                                   "width 10 is not a multiple of heads 3.", "mlp_width is 0; it must be at least 1.",
                                   "norm_epsilon is nan; it must be a number above 0.",
                                   "residual_dropout is 1; it must be at least 0 and below 1."));
}

TEST(ModelConfig, SizesBeyondAllUseAreProblemsAndDoNotOverflow) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(problems({.vocabulary = kHuge, .context = kHuge, .width = kHuge, .layers = kHuge, .heads = kHuge}),
              ElementsAre("vocabulary is 9223372036854775807; it must be at most 1000000000.",
                          "context is 9223372036854775807; it must be at most 1000000000.",
                          "width is 9223372036854775807; it must be at most 1000000.",
                          "layers is 9223372036854775807; it must be at most 10000.",
                          "heads is 9223372036854775807; it must be at most 10000."));
  // The largest that are none: 16 bytes per parameter still fit in 64 bits.
  const ModelConfig largest{.vocabulary = 1'000'000'000,
                            .context = 1'000'000'000,
                            .width = 1'000'000,
                            .layers = 10'000,
                            .heads = 10'000,
                            .mlp_width = 4'000'000};
  EXPECT_THAT(problems(largest), IsEmpty());
  EXPECT_GT(parameter_numel(largest), 0);
  EXPECT_LT(parameter_numel(largest), kHuge / 16);
}

TEST(ModelConfig, Gpt2HasNoneOfLlamasFreedoms) {
  EXPECT_THAT(problems({.key_value_heads = 2, .head_width = 16, .rope_scaling = RopeScaling{}}),
              UnorderedElementsAre("key_value_heads is 2 and heads 4; they are equal in GPT-2.",
                                   "head_width is 16; in GPT-2 it is width / heads.",
                                   "rope_scaling is set; GPT-2 has no rotary embedding."));
  EXPECT_THAT(problems({.key_value_heads = 4, .head_width = 32}), IsEmpty());
}

TEST(ModelConfig, LlamaSharesKeysEvenlyAndTurnsPairs) {
  EXPECT_THAT(problems({.family = Family::Llama, .width = 12, .heads = 4, .key_value_heads = 3}),
              UnorderedElementsAre("key_value_heads 3 does not divide heads 4, which are to share them.",
                                   "head_width is 3; it must be even, as the rotary embedding turns pairs."));
  EXPECT_THAT(problems({.family = Family::Llama, .width = 10, .heads = 4, .head_width = 8}), IsEmpty());
  EXPECT_THAT(problems({.family = Family::Llama, .key_value_heads = 0}),
              Contains("key_value_heads is 0; it must be at least 1."));
  EXPECT_THAT(problems({.family = Family::Llama, .rope_theta = 0, .embedding_dropout = 0.1}),
              UnorderedElementsAre("rope_theta is 0; it must be a number above 0.",
                                   "embedding_dropout is 0.1; Llama has none."));
}

TEST(ModelConfig, ScalingOfTheRotaryEmbeddingIsChecked) {
  const RopeScaling wrong{.factor = 0, .low_frequency_factor = 4, .high_frequency_factor = 4, .original_context = 0};
  EXPECT_THAT(problems({.family = Family::Llama, .rope_scaling = wrong}),
              UnorderedElementsAre("rope_scaling.factor is 0; it must be a number above 0.",
                                   "rope_scaling.high_frequency_factor is 4; it must be above low_frequency_factor, 4.",
                                   "rope_scaling.original_context is 0; it must be at least 1."));
}

TEST(ModelUnits, NamesByKindTellWhatDecaysFromWhatDoesNot) {
  const ModelConfig gpt2{.layers = 1};
  EXPECT_THAT(names_of(gpt2, {ParameterKind::Matrix}),
              ElementsAre("transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_proj.weight",
                          "transformer.h.0.mlp.c_fc.weight", "transformer.h.0.mlp.c_proj.weight"));
  const ModelConfig llama{.family = Family::Llama, .layers = 1, .tied_embeddings = false};
  EXPECT_THAT(names_of(llama, {ParameterKind::Norm, ParameterKind::Embedding}),
              ElementsAre("model.embed_tokens.weight", "model.norm.weight", "model.layers.0.input_layernorm.weight",
                          "model.layers.0.post_attention_layernorm.weight"));
  EXPECT_THAT(names_of(llama, {ParameterKind::Bias}), IsEmpty());
  EXPECT_THAT(names_of(llama, {ParameterKind::Matrix}), Contains("lm_head.weight"));
}

TEST(ModelUnits, OperationsOfATokenAreThoseOfTheFormula) {
  const ModelConfig tied{.vocabulary = 11, .context = 7, .width = 4, .layers = 2, .heads = 2};
  const double multiplied = static_cast<double>(parameter_numel(tied) - 7 * 4);  // positions are looked up
  EXPECT_EQ(flops_per_token(tied, 5), 6 * multiplied + 12 * 2 * 2 * 2 * 5);
  ModelConfig untied = tied;
  untied.tied_embeddings = false;  // another matrix, and the embedding is looked up too
  EXPECT_EQ(flops_per_token(untied, 5), flops_per_token(tied, 5));
}

TEST(ModelUnits, OperationsOfFrozenLayersAreThoseThatAreDone) {
  const ModelConfig config{
      .vocabulary = 11, .context = 7, .width = 4, .layers = 2, .heads = 2, .tied_embeddings = false};
  const double attention = 12 * 2 * 2 * 5;  // of a block
  std::set<std::string> below, above;
  double block = 0, matrix = 0;
  for (const Unit& unit : units(config)) {
    for (const Parameter& parameter : unit.parameters) {
      const auto numel = static_cast<double>(parameter.numel());
      if (unit.name == "transformer.h.0") block += numel;
      if (unit.name == "transformer.h.0" || parameter.kind == ParameterKind::Embedding) below.insert(parameter.name);
      if (parameter.name != "transformer.h.1.mlp.c_proj.weight") continue;
      matrix = numel;
      above.insert(parameter.name);
    }
  }
  const double all = flops_per_token(config, 5);
  EXPECT_EQ(flops_per_token(config, 5, above), all - 2 * matrix);  // gradients go through it
  // The backward ends above the first block; so the first of the second block, a norm, hands on none either.
  EXPECT_EQ(flops_per_token(config, 5, below), all - 4 * block - attention * 2 / 3 - 2 * 4);
}

TEST(ModelUnits, OperationsOfAModelThatIsFrozenAreThoseOfItsForward) {
  const ModelConfig config{.family = Family::Llama, .layers = 2};
  std::set<std::string> frozen;
  for (const Unit& unit : units(config)) {
    for (const Parameter& parameter : unit.parameters) frozen.insert(parameter.name);
  }
  EXPECT_EQ(flops_per_token(config, 5, frozen), flops_per_token(config, 5) / 3);
}

TEST(ModelFamilies, HaveNames) {
  EXPECT_STREQ(name_of(Family::Gpt2), "GPT-2");
  EXPECT_STREQ(name_of(Family::Llama), "Llama");
}

}  // namespace
}  // namespace models
