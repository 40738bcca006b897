// Both families, by themselves; hugging_face_test.cpp compares them with transformers.
#include "models/language_model.h"

#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <cmath>

#include "models/gpt2.h"
#include "models/llama.h"
#include "models/model_sizes.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace models {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

ModelConfig tiny(Family family, bool tied = true) {
  ModelConfig config{.family = family, .vocabulary = 61, .context = 12, .width = 32, .layers = 3, .heads = 4};
  config.tied_embeddings = tied;
  if (family == Family::Llama) config.key_value_heads = 2;
  return config;
}

std::shared_ptr<LanguageModel> make(const ModelConfig& config) {
  torch::manual_seed(1);
  return make_model(config);
}

torch::Tensor some_tokens(int64_t batch, int64_t length) {
  return torch::randint(0, 61, {batch, length}, torch::kInt64);
}

torch::Tensor parameter_of(const LanguageModel& model, const std::string& name) {
  return model.named_parameters()[name];
}

class LanguageModels : public ::testing::TestWithParam<Family> {};
INSTANTIATE_TEST_SUITE_P(Families, LanguageModels, ::testing::Values(Family::Gpt2, Family::Llama),
                         [](const auto& info) { return info.param == Family::Gpt2 ? "Gpt2" : "Llama"; });

TEST_P(LanguageModels, GiveLogitsForSequencesUpToTheContext) {
  const auto model = make(tiny(GetParam()));
  EXPECT_EQ(model->forward(some_tokens(2, 12)).sizes(), (std::vector<int64_t>{2, 12, 61}));
  EXPECT_EQ(model->forward(some_tokens(3, 1)).sizes(), (std::vector<int64_t>{3, 1, 61}));
}

TEST_P(LanguageModels, HaveTheSameBitsWithRecomputation) {
  ModelConfig config = tiny(GetParam());
  config.layers = 4;
  config.attention_dropout = 0.2;
  if (GetParam() == Family::Gpt2) config.residual_dropout = config.embedding_dropout = 0.1;
  const auto gradients = [&](const Recomputation& recomputation) {
    const auto model = make(config);
    model->set_recomputation(recomputation);
    const torch::Tensor tokens = some_tokens(2, 13);
    std::vector<torch::Tensor> all{model->loss(tokens.slice(1, 0, 12), tokens.slice(1, 1))};
    all[0].backward();
    for (const torch::Tensor& parameter : model->parameters()) all.push_back(parameter.grad());
    return all;
  };
  const auto expected = gradients({});
  for (const Recomputation& recomputation : std::vector<Recomputation>{
           {.blocks = 1}, {.blocks = 3}, {.blocks = 4}, {.blocks = 4, .keeps_products = true}, {.blocks = 9}}) {
    const auto found = gradients(recomputation);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(torch::equal(found[i], expected[i])) << recomputation.blocks << " blocks, tensor " << i;
    }
  }
}

// What docs/memory.md says of one layer of GPT-2: in tensors of the width, and numbers per token (of two norms, and one
// per head of the attention).
TEST(RecomputedBlocks, KeepTheirInputAndTheirProducts) {
  constexpr int64_t kTokens = 2 * 12, kHeads = 4;
  const auto kept = [](int64_t layers, const Recomputation& recomputation) {
    ModelConfig config = tiny(Family::Gpt2);
    config.layers = layers;
    const auto model = make(config);
    model->set_recomputation(recomputation);
    const torch::Tensor tokens = some_tokens(2, 12);
    int64_t bytes = 0;
    const auto moments = fsdp::preview_activations(*model, [&] { return model->loss(tokens, tokens); });
    for (const int64_t storage : moments.back()) bytes += storage;
    return bytes;
  };
  const auto of_layer = [&](const Recomputation& recomputation) {
    return kept(4, recomputation) - kept(3, recomputation);
  };
  const auto bytes = [](int64_t widths, int64_t numbers) { return 4 * kTokens * (32 * widths + numbers); };
  EXPECT_EQ(of_layer({}), bytes(16, 4 + kHeads));
  EXPECT_EQ(of_layer({.blocks = 9}), bytes(1, 0));
  EXPECT_EQ(of_layer({.blocks = 9, .keeps_products = true}), bytes(10, kHeads));
}

TEST(RecomputedBlocks, AreSpreadEvenlyAndLeaveTheLastOut) {
  const auto blocks = [](int64_t count, int64_t layers) {
    std::vector<int64_t> chosen;
    for (int64_t layer = 0; layer < layers; ++layer) {
      if (Recomputation{.blocks = count}.of(layer, layers)) chosen.push_back(layer);
    }
    return chosen;
  };
  using Layers = std::vector<int64_t>;
  EXPECT_EQ(blocks(0, 3), Layers());
  EXPECT_EQ(blocks(1, 6), Layers{0});
  EXPECT_EQ(blocks(2, 6), (Layers{0, 3}));
  EXPECT_EQ(blocks(4, 5), (Layers{0, 1, 2, 3}));
  EXPECT_EQ(blocks(3, 7), (Layers{0, 2, 4}));
  EXPECT_EQ(blocks(5, 5), (Layers{0, 1, 2, 3, 4}));
  EXPECT_EQ(blocks(9, 2), (Layers{0, 1}));
}

TEST_P(LanguageModels, HaveTheSameFirstWeightsWhereTheirConstructionIsDeferred) {
  for (const bool tied : {true, false}) {
    ModelConfig config = tiny(GetParam(), tied);
    config.lora = Lora{.rank = 4, .targets = {"q_proj", "mlp.c_proj"}};
    if (GetParam() == Family::Llama) config.rope_scaling = RopeScaling{.original_context = 8};
    const auto expected = make(config);
    const torch::Tensor next = torch::rand({3});
    torch::manual_seed(1);
    const auto found = make_deferred_model(config, torch::kCPU);
    for (const auto& parameter : found->named_parameters()) {
      EXPECT_TRUE(fsdp::is_deferred(parameter.value())) << parameter.key();
    }
    fsdp::materialize(*found);
    EXPECT_TRUE(torch::equal(torch::rand({3}), next));
    const auto parameters = found->named_parameters();
    for (const auto& parameter : expected->named_parameters()) {
      EXPECT_TRUE(torch::equal(parameter.value(), parameters[parameter.key()])) << parameter.key();
    }
    const torch::Tensor tokens = some_tokens(2, 12);
    EXPECT_TRUE(torch::equal(found->forward(tokens), expected->forward(tokens)));
  }
}

TEST_P(LanguageModels, RefuseWhatAreNoTokens) {
  const auto model = make(tiny(GetParam()));
  EXPECT_THAT(message_of<fsdp::Error>([&] { model->forward(some_tokens(1, 13)); }),
              HasSubstr("a sequence of 13 tokens is longer than the model's context of 12"));
  for (const auto& wrong : {some_tokens(1, 5)[0], some_tokens(2, 5).to(torch::kInt32), some_tokens(2, 0)}) {
    EXPECT_THAT(message_of<fsdp::Error>([&] { model->next_token_logits(wrong); }),
                HasSubstr("expected Long of shape [batch, length]"));
  }
  EXPECT_THROW(model->forward(torch::full({1, 3}, 61, torch::kInt64)), c10::Error);
}

TEST_P(LanguageModels, SeeNoLaterToken) {
  const auto model = make(tiny(GetParam()));
  auto tokens = some_tokens(1, 12);
  auto before = model->forward(tokens);
  tokens[0][7] = (tokens[0][7] + 1) % 61;
  auto after = model->forward(tokens);
  EXPECT_TRUE(torch::equal(before.narrow(1, 0, 7), after.narrow(1, 0, 7)));
  EXPECT_FALSE(torch::allclose(before.narrow(1, 7, 5), after.narrow(1, 7, 5)));
}

TEST_P(LanguageModels, SeeTheOrderOfTokens) {
  const auto model = make(tiny(GetParam()));
  const auto tokens = torch::tensor({{1, 2, 3, 4, 5, 9}, {5, 4, 3, 2, 1, 9}}, torch::kInt64);
  const auto logits = model->forward(tokens).select(1, -1);
  EXPECT_FALSE(torch::allclose(logits[0], logits[1]));
}

TEST_P(LanguageModels, NextTokenLogitsAreTheLastOfForward) {
  const auto model = make(tiny(GetParam()));
  const auto tokens = some_tokens(3, 9);
  // A product of fewer rows may add in another order.
  EXPECT_TRUE(torch::allclose(model->next_token_logits(tokens), model->forward(tokens).select(1, -1), 1e-5, 1e-6));
}

// Sums of one row and of many are added in another order by LibTorch's products: a few last bits of fp32, in logits of
// order 1, hence 1e-5.
void expect_close(const torch::Tensor& cached, const torch::Tensor& whole) {
  EXPECT_TRUE(torch::allclose(cached, whole, 1e-5, 1e-5)) << (cached - whole).abs().max().item<double>();
}

TEST_P(LanguageModels, CachedLogitsAreThoseOfTheWholeForward) {
  ModelConfig config = tiny(GetParam());
  config.context = 150;  // the cache grows on the way
  config.initializer_range = 0.2;
  for (int64_t key_value_heads : {1, 2, 4}) {
    if (GetParam() == Family::Llama) config.key_value_heads = key_value_heads;
    const auto model = make(config);
    model->eval();
    const auto tokens = some_tokens(2, 150);
    KeyValueCache cache(config.layers);
    EXPECT_TRUE(torch::equal(model->next_token_logits(tokens.narrow(1, 0, 7), cache),
                             model->next_token_logits(tokens.narrow(1, 0, 7))));
    for (int64_t next = 7; next < 150;) {
      const int64_t count = next % 50 == 0 ? 5 : 1;
      const auto cached = model->next_token_logits(tokens.narrow(1, next, count), cache);
      next += count;
      EXPECT_EQ(cache.length(), next);
      expect_close(cached, model->next_token_logits(tokens.narrow(1, 0, next)));
    }
  }
}

TEST_P(LanguageModels, ATruncatedCacheGoesOnAnotherWay) {
  const auto model = make(tiny(GetParam()));
  model->eval();
  const auto tokens = some_tokens(1, 12);
  KeyValueCache cache(3);
  model->next_token_logits(tokens, cache);
  cache.truncate(4);
  const auto other = torch::cat({tokens.narrow(1, 0, 4), some_tokens(1, 1)}, 1);
  expect_close(model->next_token_logits(other.narrow(1, 4, 1), cache), model->next_token_logits(other));
  EXPECT_THAT(message_of<fsdp::Error>([&] { model->next_token_logits(some_tokens(1, 8), cache); }),
              HasSubstr("a sequence of 13 tokens is longer than the model's context of 12"));
}

TEST_P(LanguageModels, ATiedHeadIsTheTokenEmbedding) {
  const auto model = make(tiny(GetParam()));
  const char* name = GetParam() == Family::Gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight";
  // Row 60 is read by the head alone, as long as no token is 60.
  const auto tokens = some_tokens(1, 6).clamp_max(59);
  auto before = model->forward(tokens);
  {
    torch::NoGradGuard no_grad;
    parameter_of(*model, name)[60].mul_(2);
  }
  auto after = model->forward(tokens);
  EXPECT_TRUE(torch::allclose(after.select(2, 60), 2 * before.select(2, 60)));
  EXPECT_TRUE(torch::equal(after.narrow(2, 0, 60), before.narrow(2, 0, 60)));
}

TEST_P(LanguageModels, AnUntiedHeadIsAParameterOfItsOwn) {
  const auto model = make(tiny(GetParam(), /*tied=*/false));
  {
    torch::NoGradGuard no_grad;
    parameter_of(*model, "lm_head.weight").zero_();
  }
  EXPECT_TRUE(torch::equal(model->forward(some_tokens(1, 6)), torch::zeros({1, 6, 61})));
}

TEST_P(LanguageModels, BeginKnowingNothing) {
  const auto model = make(tiny(GetParam()));
  EXPECT_NEAR(model->loss(some_tokens(4, 12), some_tokens(4, 12)).item<double>(), std::log(61.0), 0.1);
}

TEST_P(LanguageModels, FirstWeightsFollowTheSeedAndTheConfig) {
  ModelConfig config = tiny(GetParam());
  config.initializer_range = 0.1;
  config.attention_bias = config.mlp_bias = true;  // of Llama
  const auto model = make(config), again = make(config);
  for (const auto& named : model->named_parameters()) {
    const std::string& name = named.key();
    const torch::Tensor& value = named.value();
    EXPECT_TRUE(torch::equal(value, parameter_of(*again, name))) << name;
    if (value.dim() == 1) {
      EXPECT_TRUE(torch::equal(value, name.ends_with("bias") ? torch::zeros_like(value) : torch::ones_like(value)));
    } else {
      const double expected = name.ends_with("c_proj.weight") ? 0.1 / std::sqrt(6.0) : 0.1;
      EXPECT_NEAR(value.std().item<double>(), expected, 0.1 * expected) << name;
    }
  }
}

TEST_P(LanguageModels, DropoutFollowsTheSeedAndEndsWithTraining) {
  for (double ModelConfig::*dropout :
       {&ModelConfig::attention_dropout, &ModelConfig::embedding_dropout, &ModelConfig::residual_dropout}) {
    ModelConfig config = tiny(GetParam());
    config.*dropout = 0.5;
    if (!problems(config).empty()) continue;  // Llama has one kind of dropout
    const auto model = make(config), plain = make(tiny(GetParam()));
    const auto tokens = some_tokens(2, 12);
    auto pass = [&](uint64_t seed) {
      torch::manual_seed(seed);
      return model->forward(tokens);
    };
    EXPECT_TRUE(torch::equal(pass(1), pass(1)));
    EXPECT_FALSE(torch::equal(pass(1), pass(2)));
    model->eval();
    EXPECT_TRUE(torch::equal(pass(1), plain->forward(tokens)));
  }
}

// Memory is computed from the lists, without the model.
TEST_P(LanguageModels, HaveTheParametersThatTheirUnitsList) {
  for (const auto& [tied, adapted] : {std::pair(true, true), {false, true}, {true, false}, {false, false}}) {
    ModelConfig config = tiny(GetParam(), tied);
    config.attention_bias = tied;
    config.mlp_bias = !tied;
    if (adapted) config.lora = Lora{.rank = 3, .targets = {"c_attn", "mlp.c_proj", "q_proj", "o_proj", "down_proj"}};
    run_ranks(1, [&](fsdp::World& world) {
      const auto model = make(config);
      const auto sharded = fsdp::shard(*model, world, {.units = fsdp::units_of<Gpt2BlockImpl, LlamaBlockImpl>()});
      size_t i = 0;
      for (const Unit& unit : units(config)) {
        for (const Parameter& parameter : unit.parameters) {
          ASSERT_LT(i, sharded.parameters().size());
          EXPECT_EQ(sharded.parameters()[i].name, parameter.name);
          EXPECT_EQ(sharded.parameters()[i].shape, parameter.shape) << parameter.name;
          EXPECT_TRUE(unit.name == "root" || parameter.name.starts_with(unit.name + "."));
          ++i;
        }
      }
      EXPECT_EQ(i, sharded.parameters().size());
    });
  }
}

// The base has the first weights that it has without, and the adapters add nothing yet.
TEST_P(LanguageModels, BeginTheSameWithAdapters) {
  ModelConfig config = tiny(GetParam());
  const auto plain = make(config);
  config.lora = Lora{.rank = 3, .dropout = 0.5, .targets = {"c_attn", "q_proj", "down_proj"}};
  const auto adapted = make(config);
  const auto tokens = some_tokens(2, 12);
  EXPECT_TRUE(torch::equal(adapted->forward(tokens), plain->forward(tokens)));
  EXPECT_GT(adapted->parameters().size(), plain->parameters().size());
  for (const auto& parameter : plain->named_parameters()) {
    EXPECT_TRUE(torch::equal(adapted->named_parameters()[parameter.key()], parameter.value())) << parameter.key();
  }
}

// Gathered in bf16, every operator finds the dtypes that it needs, in forward and in backward.
TEST_P(LanguageModels, RunInSixteenBits) {
  run_ranks(2, [&](fsdp::World& world) {
    const auto model = make(tiny(GetParam())), plain = make(tiny(GetParam()));
    auto sharded = fsdp::shard(*model, world,
                               {.units = fsdp::units_of<Gpt2BlockImpl, LlamaBlockImpl>(),
                                .mixed_precision = {.param_dtype = torch::kBFloat16}});
    torch::manual_seed(3);
    const auto tokens = some_tokens(2, 12), targets = some_tokens(2, 12);
    const auto loss = model->loss(tokens, targets);
    EXPECT_EQ(loss.scalar_type(), torch::kFloat32);
    // Eight bits of mantissa, in a loss of log 61.
    EXPECT_NEAR(loss.item<double>(), plain->loss(tokens, targets).item<double>(), 0.05);
    loss.backward();
    EXPECT_TRUE(std::isfinite(sharded.clip_grad_norm_(1.0)));
  });
}

TEST(MakeModel, BuildsTheSmallSizesWithAsManyParametersAsCounted) {
  for (const char* name : {"gpt2-tiny", "gpt2-mini", "llama-tiny", "llama-mini"}) {
    const ModelConfig config = *config_of_size(name);
    int64_t numel = 0;
    for (const auto& parameter : make_model(config)->parameters()) numel += parameter.numel();
    EXPECT_EQ(numel, parameter_numel(config)) << name;
  }
}

TEST(MakeModel, NamesAllThatIsWrongWithAConfig) {
  EXPECT_THAT(message_of<fsdp::Error>([] { make_model({.vocabulary = 0, .width = 10, .heads = 4}); }),
              AllOf(HasSubstr("vocabulary is 0"), HasSubstr("width 10 is not a multiple of heads 4")));
  EXPECT_THAT(message_of<fsdp::Error>([] { make_model({.family = Family::Bert, .layers = 1}); }),
              HasSubstr("a BERT is for plans alone"));
}

}  // namespace
}  // namespace models
