#include "generation/generate.h"

#include <gtest/gtest.h>

#include "tokenizers/bytes.h"

namespace trainer {
namespace {

TEST(Generate, FollowsTheSeedAndItsSettings) {
  torch::manual_seed(1);
  const auto model = models::make_model({.vocabulary = 256, .context = 12, .width = 16, .layers = 3, .heads = 4});
  const auto bytes = tokenizers::make_bytes();
  Options options;
  options.prompt = "a prompt beyond the context";
  options.sample_length = 20;
  const std::string text = generate(*model, *bytes, options);
  EXPECT_TRUE(text.starts_with(options.prompt));
  EXPECT_EQ(text.size(), options.prompt.size() + 20);
  torch::manual_seed(99);  // what else is drawn has no influence
  EXPECT_EQ(generate(*model, *bytes, options), text);
  options.seed = 2;
  EXPECT_NE(generate(*model, *bytes, options), text);
  options.temperature = 0;
  const std::string likeliest = generate(*model, *bytes, options);
  options.temperature = 1;
  options.top_k = 1;
  EXPECT_EQ(generate(*model, *bytes, options), likeliest);
}

TEST(Generate, BeginsWithANewLineWhereThereIsNoPrompt) {
  const auto model = models::make_model({.vocabulary = 256, .context = 12, .width = 16, .layers = 1, .heads = 4});
  Options options;
  options.prompt = "";
  options.sample_length = 3;
  EXPECT_TRUE(generate(*model, *tokenizers::make_bytes(), options).starts_with("\n"));
}

TEST(Generate, WritesOnlyWhatTheTokenizerKnows) {
  const auto model = models::make_model({.vocabulary = 5000, .context = 12, .width = 16, .layers = 1, .heads = 4});
  Options options;
  options.sample_length = 50;
  options.top_k = 0;
  options.temperature = 1e-40;  // as good as 0
  EXPECT_EQ(generate(*model, *tokenizers::make_bytes(), options).size(), 51u);
}

TEST(Generate, EndsWhereTheModelHasComeToGrief) {
  const auto model = models::make_model({.vocabulary = 256, .context = 12, .width = 16, .layers = 1, .heads = 4});
  {
    torch::NoGradGuard no_grad;
    for (auto& parameter : model->parameters()) parameter.fill_(NAN);
  }
  Options options;
  EXPECT_EQ(generate(*model, *tokenizers::make_bytes(), options), "\n");
}

TEST(Generate, LeavesTheModelInItsMode) {
  const auto model = models::make_model({.vocabulary = 256, .context = 12, .width = 16, .layers = 1, .heads = 4});
  Options options;
  options.sample_length = 1;
  generate(*model, *tokenizers::make_bytes(), options);
  EXPECT_TRUE(model->is_training());
  model->eval();
  generate(*model, *tokenizers::make_bytes(), options);
  EXPECT_FALSE(model->is_training());
}

}  // namespace
}  // namespace trainer
