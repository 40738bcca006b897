#include "generation/generate.h"

#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include "generation/writer.h"
#include "run/sharding.h"
#include "support/run_ranks.h"
#include "tokenizers/bytes.h"

namespace trainer {
namespace {

TEST(Generate, FollowsTheSeedAndItsSettings) {
  torch::manual_seed(1);
  const auto model = models::make_model({.vocabulary = 256, .context = 12, .width = 16, .layers = 3, .heads = 4});
  const auto bytes = tokenizers::make_bytes();
  RunOptions options;
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
  RunOptions options;
  options.prompt = "";
  options.sample_length = 3;
  EXPECT_TRUE(generate(*model, *tokenizers::make_bytes(), options).starts_with("\n"));
}

TEST(Generate, WritesOnlyWhatTheTokenizerKnows) {
  const auto model = models::make_model({.vocabulary = 5000, .context = 12, .width = 16, .layers = 1, .heads = 4});
  RunOptions options;
  options.sample_length = 50;
  options.top_k = 0;
  options.temperature = 1e-40;  // as good as 0
  EXPECT_EQ(generate(*model, *tokenizers::make_bytes(), options).size(), 51u);
}

TEST(Generate, TakesTheLikeliestAtAnyTemperatureNextToZero) {
  torch::manual_seed(1);
  const auto model = models::make_model({.vocabulary = 256, .context = 12, .width = 16, .layers = 1, .heads = 4});
  RunOptions options;
  options.sample_length = 20;
  options.temperature = 0;
  const std::string likeliest = generate(*model, *tokenizers::make_bytes(), options);
  for (const double temperature : {1e-37, 1e-40, 1e-46, 1e-320}) {
    options.temperature = temperature;
    EXPECT_EQ(generate(*model, *tokenizers::make_bytes(), options), likeliest) << temperature;
  }
}

TEST(Generate, EndsWhereTheModelHasComeToGrief) {
  const auto model = models::make_model({.vocabulary = 256, .context = 12, .width = 16, .layers = 1, .heads = 4});
  {
    torch::NoGradGuard no_grad;
    for (auto& parameter : model->parameters()) parameter.fill_(NAN);
  }
  RunOptions options;
  const auto bytes = tokenizers::make_bytes();
  EXPECT_EQ(generate(*model, *bytes, options), "\n");
  Writer writer(*model, *bytes, bytes->encode("a"), options, torch::kCPU);
  EXPECT_EQ(writer.write(1, [](int32_t) {}), 0);
  EXPECT_TRUE(writer.logits_not_finite());
}

// Logits far enough apart that their last bits, which depend on how many rows a product has, decide nothing.
std::shared_ptr<models::LanguageModel> decided_model(models::Family family) {
  torch::manual_seed(1);
  return models::make_model({.family = family,
                             .vocabulary = 256,
                             .context = 12,
                             .width = 16,
                             .layers = 2,
                             .heads = 4,
                             .initializer_range = 0.5});
}

std::vector<int32_t> written(Writer& writer, uint64_t seed) {
  std::vector<int32_t> tokens;
  EXPECT_EQ(writer.write(seed, [&](int32_t token) { tokens.push_back(token); }), 40);
  return tokens;
}

TEST(Writer, WritesTheLikeliestOfWhatTheModelSees) {
  const auto bytes = tokenizers::make_bytes();
  RunOptions options;
  options.temperature = 0;
  options.sample_length = 40;
  for (const models::Family family : {models::Family::Gpt2, models::Family::Llama}) {
    const auto model = decided_model(family);
    for (const std::string prompt : {"abc", "longer than the context is"}) {
      std::vector<int32_t> tokens = bytes->encode(prompt);
      Writer writer(*model, *bytes, tokens, options, torch::kCPU);
      int64_t seen = std::min<int64_t>(static_cast<int64_t>(tokens.size()), 12);
      torch::NoGradGuard no_grad;
      for (int32_t token : written(writer, 1)) {
        const std::vector<int64_t> window(tokens.end() - seen, tokens.end());
        EXPECT_EQ(token, model->next_token_logits(torch::tensor(window).unsqueeze(0)).argmax().item<int64_t>());
        tokens.push_back(token);
        seen = seen == 12 ? 6 : seen + 1;  // the older half is forgotten
      }
    }
  }
}

TEST(Writer, WritesEachSampleAsIfItWereTheOnlyOne) {
  const auto bytes = tokenizers::make_bytes();
  const auto model = decided_model(models::Family::Llama);
  RunOptions options;
  options.sample_length = 40;
  Writer several(*model, *bytes, bytes->encode("abc"), options, torch::kCPU);
  const std::vector<int32_t> first = written(several, 1);
  for (uint64_t seed : {2, 3, 1}) {
    Writer one(*model, *bytes, bytes->encode("abc"), options, torch::kCPU);
    EXPECT_EQ(written(several, seed), written(one, seed)) << seed;
  }
  EXPECT_NE(written(several, 2), first);
  options.sample_length = 5;  // the prompt stays in the cache
  Writer shorter(*model, *bytes, bytes->encode("abc"), options, torch::kCPU);
  for (int time = 0; time < 2; ++time) {
    std::vector<int32_t> tokens;
    shorter.write(1, [&](int32_t token) { tokens.push_back(token); });
    EXPECT_EQ(tokens, std::vector<int32_t>(first.begin(), first.begin() + 5));
  }
}

// Of which rank 0 alone may be asked.
class FailingTokenizer final : public tokenizers::Tokenizer {
 public:
  explicit FailingTokenizer(bool in_decoding) : in_decoding_(in_decoding) {}
  std::string name() const override { return "failing"; }
  int64_t vocabulary() const override { return 256; }
  std::vector<int32_t> encode(std::string_view) const override {
    if (!in_decoding_) throw fsdp::Error("no tokens today");
    return {65};
  }
  std::string decode(std::span<const int32_t>) const override { throw fsdp::Error("no text today"); }
  std::optional<int32_t> end_of_text() const override { return std::nullopt; }
  File file() const override { return {.name = "tokenizer.json", .bytes = "{}"}; }

 private:
  bool in_decoding_;
};

TEST(GenerateTogether, IsTheTextOfOneRankOnRankZero) {
  RunOptions options;
  options.sample_length = 20;
  const std::string expected =
      generate(*decided_model(models::Family::Gpt2), *tokenizers::make_bytes(), options, torch::kCPU);
  fsdp::testing::run_ranks(2, [&](fsdp::World& world) {
    const auto model = decided_model(models::Family::Gpt2);
    auto sharded = fsdp::shard(*model, world, sharding_of(options));
    const SharedSample sample = generate_together(world, *model, *tokenizers::make_bytes(), options);
    EXPECT_EQ(sample.text, world.rank() == 0 ? expected : "");
    EXPECT_EQ(sample.problem, "");
    // A tokenizer that fails leaves no rank behind.
    for (const auto& [in_decoding, problem] : {std::pair(false, "no tokens today"), std::pair(true, "no text today")}) {
      const SharedSample failed = generate_together(world, *model, FailingTokenizer(in_decoding), options);
      EXPECT_EQ(failed.text, "");
      EXPECT_EQ(failed.problem, world.rank() == 0 ? problem : "");
    }
    EXPECT_EQ(generate_together(world, *model, *tokenizers::make_bytes(), options).text,
              world.rank() == 0 ? expected : "");
  });
}

TEST(Generate, LeavesTheModelInItsMode) {
  const auto model = models::make_model({.vocabulary = 256, .context = 12, .width = 16, .layers = 1, .heads = 4});
  RunOptions options;
  options.sample_length = 1;
  generate(*model, *tokenizers::make_bytes(), options);
  EXPECT_TRUE(model->is_training());
  model->eval();
  generate(*model, *tokenizers::make_bytes(), options);
  EXPECT_FALSE(model->is_training());
}

}  // namespace
}  // namespace trainer
