#include "fsdp-train/sample.h"

#include <gtest/gtest.h>

namespace trainer {
namespace {

TEST(Sample, FollowsTheSeedAndItsSettings) {
  torch::manual_seed(1);
  const auto model = models::make_model({.vocabulary = 256, .context = 12, .width = 16, .layers = 3, .heads = 4});
  Options options;
  options.prompt = "a prompt beyond the context";
  options.sample_length = 20;
  const std::string text = sample(*model, options);
  EXPECT_TRUE(text.starts_with(options.prompt));
  EXPECT_EQ(text.size(), options.prompt.size() + 20);
  torch::manual_seed(99);  // what else is drawn has no influence
  EXPECT_EQ(sample(*model, options), text);
  options.seed = 2;
  EXPECT_NE(sample(*model, options), text);
  options.temperature = 0;
  const std::string likeliest = sample(*model, options);
  options.temperature = 1;
  options.top_k = 1;
  EXPECT_EQ(sample(*model, options), likeliest);
}

}  // namespace
}  // namespace trainer
