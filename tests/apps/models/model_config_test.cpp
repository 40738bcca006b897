#include "models/model_config.h"

#include <gmock/gmock.h>

#include <limits>
#include <set>
#include <string>
#include <utility>

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
  EXPECT_EQ(numel_of_size("llama2-7b"), 6'738'415'616);
  EXPECT_EQ(numel_of_size("llama2-13b"), 13'015'864'320);
  EXPECT_EQ(numel_of_size("llama2-34b"), 33'743'970'304);  // of Code Llama's files
  EXPECT_EQ(numel_of_size("llama2-70b"), 68'976'648'192);
  EXPECT_EQ(numel_of_size("llama3-8b"), 8'030'261'248);
  EXPECT_EQ(numel_of_size("llama3-70b"), 70'553'706'496);
  EXPECT_EQ(numel_of_size("llama3.1-8b"), 8'030'261'248);
  EXPECT_EQ(numel_of_size("llama3.1-70b"), 70'553'706'496);
  EXPECT_EQ(numel_of_size("llama3.1-405b"), 405'853'388'800);
  EXPECT_EQ(numel_of_size("llama3.2-1b"), 1'235'814'400);
  EXPECT_EQ(numel_of_size("llama3.2-3b"), 3'212'749'824);
  EXPECT_EQ(numel_of_size("mistral-7b"), 7'248'023'552);
  EXPECT_EQ(numel_of_size("bert-base"), 110'106'428);
  EXPECT_EQ(numel_of_size("bert-large"), 336'226'108);
}

TEST(ModelSizes, OfPapersAreNearTheirRoundNumbers) {
  const std::pair<const char*, double> published[] = {
      {"gpt3-125m", 125e6}, {"gpt3-350m", 356e6}, {"gpt3-760m", 760e6}, {"gpt3-1.3b", 1.3e9},      {"gpt3-2.7b", 2.7e9},
      {"gpt3-6.7b", 6.7e9}, {"gpt3-13b", 13e9},   {"gpt3-175b", 175e9}, {"turing-nlg-17b", 17.2e9}};
  for (const auto& [name, numel] : published) {
    const double share = std::string(name) == "gpt3-175b" ? 0.005 : 0.02;
    EXPECT_NEAR(static_cast<double>(numel_of_size(name)), numel, share * numel) << name;
  }
  EXPECT_NEAR(static_cast<double>(numel_of_size("turing-nlg-17b")), 17.2e9, 0.01 * 17.2e9);
}

TEST(ModelSizes, HaveNoProblems) {
  for (const std::string& name : planned_names()) {
    ASSERT_TRUE(config_of_size(name)) << name;
    EXPECT_THAT(problems(*config_of_size(name)), IsEmpty()) << name;
    const bool is_llama = name.starts_with("llama") || name.starts_with("mistral");
    EXPECT_EQ(is_llama, config_of_size(name)->family == Family::Llama) << name;
  }
  EXPECT_FALSE(config_of_size("gpt3"));
}

TEST(ModelSizes, AreAllDifferent) {
  const std::vector<std::string> names = planned_names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

TEST(ModelSizes, ThatFsdpTrainDoesNotTrainAreForPlansAlone) {
  std::vector<std::string> planned = planned_names();
  planned.resize(size_names().size());
  EXPECT_EQ(planned, size_names());
  for (const std::string& name : size_names()) EXPECT_FALSE(is_for_plans_alone(config_of_size(name)->family)) << name;
  for (const char* name : {"bert-base", "bert-large"}) {
    EXPECT_THAT(planned_names(), Contains(name));
    EXPECT_TRUE(is_for_plans_alone(config_of_size(name)->family));
  }
}

TEST(ModelSizes, HaveAliases) {
  EXPECT_EQ(name_behind("llama-1b"), "llama3.2-1b");
  EXPECT_EQ(name_behind("llama-7b"), "llama2-7b");
  EXPECT_EQ(name_behind("llama-8b"), "llama3.1-8b");
  EXPECT_EQ(name_behind("gpt2"), "gpt2");
  for (const std::string& name : size_names()) EXPECT_EQ(config_of_size(name), config_of_size(name_behind(name)));
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

TEST(ModelConfig, BertHasATiedHeadAndNoneOfLlamasFreedoms) {
  EXPECT_THAT(problems({.family = Family::Bert, .key_value_heads = 2, .head_width = 16, .tied_embeddings = false}),
              UnorderedElementsAre("key_value_heads is 2 and heads 4; they are equal in BERT.",
                                   "head_width is 16; in BERT it is width / heads.",
                                   "tied_embeddings is false; in BERT the head is the token embedding."));
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

// As BertForPreTraining has them, in its order.
TEST(ModelUnits, OfABertHaveHuggingFacesNames) {
  const std::vector<Unit> all =
      units({.family = Family::Bert, .vocabulary = 11, .context = 7, .width = 4, .layers = 2, .heads = 2});
  ASSERT_EQ(all.size(), 3u);
  const auto names = [](const Unit& unit) {
    std::vector<std::string> names;
    for (const Parameter& parameter : unit.parameters) names.push_back(parameter.name);
    return names;
  };
  EXPECT_THAT(names(all[0]),
              ElementsAre("bert.embeddings.word_embeddings.weight", "bert.embeddings.position_embeddings.weight",
                          "bert.embeddings.token_type_embeddings.weight", "bert.embeddings.LayerNorm.weight",
                          "bert.embeddings.LayerNorm.bias", "bert.pooler.dense.weight", "bert.pooler.dense.bias",
                          "cls.predictions.bias", "cls.predictions.transform.dense.weight",
                          "cls.predictions.transform.dense.bias", "cls.predictions.transform.LayerNorm.weight",
                          "cls.predictions.transform.LayerNorm.bias", "cls.seq_relationship.weight",
                          "cls.seq_relationship.bias"));
  EXPECT_EQ(all[2].name, "bert.encoder.layer.1");
  EXPECT_EQ(all[2].parameters.size(), 16u);
  EXPECT_EQ(names(all[2])[0], "bert.encoder.layer.1.attention.self.query.weight");
  EXPECT_EQ(all[2].parameters[10].name, "bert.encoder.layer.1.intermediate.dense.weight");
  EXPECT_THAT(all[2].parameters[10].shape, ElementsAre(16, 4));
}

TEST(ModelUnits, OperationsOfABertCountItsTiedHead) {
  const ModelConfig bert{.family = Family::Bert, .vocabulary = 11, .context = 7, .width = 4, .layers = 2, .heads = 2};
  const double multiplied = static_cast<double>(parameter_numel(bert) - (7 + 2) * 4);  // positions, kinds of sentences
  EXPECT_EQ(flops_per_token(bert, 5), 6 * multiplied + 12 * 2 * 2 * 2 * 5);
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
  EXPECT_STREQ(name_of(Family::Bert), "BERT");
}

}  // namespace
}  // namespace models
