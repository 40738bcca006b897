#include "options/model_choice.h"

#include <gmock/gmock.h>

#include "models/hugging_face_config.h"
#include "models/model_sizes.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

models::ModelConfig chosen(const ModelOptions& options) {
  const ModelChoice choice = choose_model(options);
  EXPECT_THAT(choice.problems, IsEmpty());
  return choice.config;
}

TEST(ModelChoice, KnowsSizesByName) {
  for (const std::string& size : models::size_names()) {
    ModelOptions options;
    options.model = size;
    EXPECT_EQ(chosen(options), *models::config_of_size(size));
  }
}

TEST(ModelChoice, ReadsFiles) {
  const TemporaryFolder folder;
  const models::ModelConfig llama = *models::config_of_size("llama-tiny");
  ModelOptions options;
  options.model = folder.write("config.json", models::hugging_face_config(llama));
  EXPECT_EQ(chosen(options).key_value_heads, llama.key_value_heads);
  options.model = folder.path();
  EXPECT_EQ(chosen(options).family, models::Family::Llama);
  options.model = folder.write("model.toml", "family = \"llama\"\nwidth = 64\n");
  EXPECT_EQ(chosen(options).width, 64);
}

TEST(ModelChoice, OptionsComeBeforeTheModel) {
  ModelOptions options;
  options.model = "llama-tiny";
  options.width = 64;
  options.layers = 2;
  options.heads = 8;
  options.key_value_heads = 4;
  options.context = 32;
  options.vocabulary = 500;
  options.mlp_width = 96;
  options.tie_embeddings = false;
  options.rope_theta = 1e6;
  options.dropout = 0.25;
  const models::ModelConfig config = chosen(options);
  EXPECT_EQ(config.width, 64);
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.heads, 8);
  EXPECT_EQ(config.key_value_heads, 4);
  EXPECT_EQ(config.context, 32);
  EXPECT_EQ(config.vocabulary, 500);
  EXPECT_EQ(config.mlp_width, 96);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_EQ(config.rope_theta, 1e6);
  EXPECT_EQ(config.attention_dropout, 0.25);
}

TEST(ModelChoice, ByDefaultIsASmallGpt2) { EXPECT_EQ(chosen({}), *models::config_of_size("gpt2-tiny")); }

TEST(ModelChoice, RefusesWhatAFamilyDoesNotHave) {
  ModelOptions options;
  options.key_value_heads = 2;
  options.rope_theta = 1e4;
  EXPECT_THAT(choose_model(options).problems,
              ElementsAre(HasSubstr("--key-value-heads is given"), HasSubstr("--rope-theta is given")));
}

TEST(ModelChoice, RefusesWhatCannotBeBuilt) {
  ModelOptions options;
  options.width = 10;
  EXPECT_THAT(choose_model(options).problems, Contains(HasSubstr("10")));
}

// Of longer files the first positions are loaded.
TEST(ModelChoice, AGpt2HasNoMorePositionsThanItsFiles) {
  const TemporaryFolder folder;
  models::ModelConfig gpt2 = *models::config_of_size("gpt2-tiny");
  gpt2.context = 32;
  folder.write("config.json", models::hugging_face_config(gpt2));
  RunOptions options;
  options.model = gpt2;
  options.model_options.init_from = folder.path();
  for (const int64_t context : {1, 32}) {
    options.model.context = context;
    EXPECT_EQ(positions_problem(options), "");
  }
  options.model.context = 33;
  EXPECT_THAT(positions_problem(options), HasSubstr("has 32 positions, and --context is 33. Use --context 32, or"));
  options.no_strict = true;
  EXPECT_EQ(positions_problem(options), "");
  options.no_strict = false;
  options.model.family = models::Family::Llama;  // other problems are found when it is loaded
  EXPECT_EQ(positions_problem(options), "");
}

TEST(ModelChoice, NamesTheNearestSize) {
  ModelOptions options;
  options.model = "lama-8b";
  EXPECT_THAT(choose_model(options).problems, ElementsAre(HasSubstr("did you mean llama-8b?")));
  options.model = "missing/config.json";
  EXPECT_THAT(choose_model(options).problems, ElementsAre(HasSubstr("missing/config.json")));
}

}  // namespace
}  // namespace trainer
