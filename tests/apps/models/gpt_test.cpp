#include "models/gpt.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fsdp-train/sample.h"

namespace gpt {
namespace {

constexpr Config kConfig{.vocabulary = 256, .context = 12, .width = 16, .layers = 3, .heads = 4};

torch::Tensor some_tokens(int64_t batch, int64_t length) {
  return torch::randint(0, 256, {batch, length}, torch::kInt64);
}

TEST(Gpt, HasTheShapesAndTheParametersOfItsConfig) {
  torch::manual_seed(1);
  Gpt model(kConfig);
  EXPECT_EQ(model->forward(some_tokens(2, 12)).sizes(), (std::vector<int64_t>{2, 12, 256}));
  EXPECT_EQ(model->forward(some_tokens(3, 5)).sizes(), (std::vector<int64_t>{3, 5, 256}));
  int64_t numel = 0;
  for (const auto& parameter : model->parameters()) numel += parameter.numel();
  EXPECT_EQ(numel, parameter_numel(kConfig));
}

TEST(Gpt, SeesNoLaterToken) {
  torch::manual_seed(1);
  Gpt model(kConfig);
  auto tokens = some_tokens(1, 12);
  auto before = model->forward(tokens);
  tokens[0][7] = (tokens[0][7] + 1) % 256;
  auto after = model->forward(tokens);
  EXPECT_TRUE(torch::equal(before.narrow(1, 0, 7), after.narrow(1, 0, 7)));
  EXPECT_FALSE(torch::allclose(before.narrow(1, 7, 5), after.narrow(1, 7, 5)));
}

TEST(Gpt, HeadIsTheTokenEmbedding) {
  torch::manual_seed(1);
  Gpt model(kConfig);
  auto tokens = some_tokens(1, 6);
  auto embedding = model->named_parameters()["token_embedding.weight"];
  // Row 255 is read by the head alone, as long as no token is 255.
  tokens.clamp_max_(254);
  auto before = model->forward(tokens);
  {
    torch::NoGradGuard no_grad;
    embedding[255].mul_(2);
  }
  auto after = model->forward(tokens);
  EXPECT_TRUE(torch::allclose(after.select(2, 255), 2 * before.select(2, 255)));
  EXPECT_TRUE(torch::equal(after.narrow(2, 0, 255), before.narrow(2, 0, 255)));
}

TEST(Gpt, BeginsKnowingNothing) {
  torch::manual_seed(1);
  Gpt model(kConfig);
  const double loss = model->loss(some_tokens(4, 12), some_tokens(4, 12)).item<double>();
  EXPECT_NEAR(loss, std::log(256.0), 0.1);
  for (const auto& named : model->named_parameters()) {
    const double deviation = named.value().std().item<double>();
    if (named.key().ends_with("qkv.weight")) {
      EXPECT_NEAR(deviation, 0.02, 0.003);
    }
    if (named.key().ends_with("down.weight")) {
      EXPECT_NEAR(deviation, 0.02 / std::sqrt(6.0), 0.001);
    }
  }
}

TEST(Sample, FollowsTheSeedAndItsSettings) {
  torch::manual_seed(1);
  Gpt model(kConfig);
  trainer::Options options;
  options.prompt = "a prompt beyond the context";
  options.sample_length = 20;
  const std::string text = trainer::sample(model, options);
  EXPECT_TRUE(text.starts_with(options.prompt));
  EXPECT_EQ(text.size(), options.prompt.size() + 20);
  torch::manual_seed(99);  // what else is drawn has no influence
  EXPECT_EQ(trainer::sample(model, options), text);
  options.seed = 2;
  EXPECT_NE(trainer::sample(model, options), text);
  options.temperature = 0;
  const std::string likeliest = trainer::sample(model, options);
  options.temperature = 1;
  options.top_k = 1;
  EXPECT_EQ(trainer::sample(model, options), likeliest);
}

}  // namespace
}  // namespace gpt
