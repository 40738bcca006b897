#include "models/toml_config.h"

#include <gmock/gmock.h>

#include "support/temporary_folder.h"

namespace models {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TomlConfig : public ::testing::Test {
 protected:
  ConfigFile read(const std::string& text) const { return read_toml_config(folder_.write("model.toml", text)); }
  TemporaryFolder folder_;
};

TEST_F(TomlConfig, EveryKeyIsTaken) {
  const ConfigFile file = read(
      "family = \"llama\"\nvocabulary = 1000\ncontext = 64\nwidth = 48\nlayers = 3\nheads = 4\nkey_value_heads = 2\n"
      "head_width = 16\nmlp_width = 96\nnorm_epsilon = 1e-6\nrope_theta = 500000\ntied_embeddings = false\n"
      "attention_bias = true\nmlp_bias = true\ninitializer_range = 0.01\nattention_dropout = 0.1\n");
  EXPECT_THAT(file.problems, IsEmpty());
  const ModelConfig expected{.family = Family::Llama,
                             .vocabulary = 1000,
                             .context = 64,
                             .width = 48,
                             .layers = 3,
                             .heads = 4,
                             .key_value_heads = 2,
                             .head_width = 16,
                             .mlp_width = 96,
                             .norm_epsilon = 1e-6,
                             .rope_theta = 500000,
                             .tied_embeddings = false,
                             .attention_bias = true,
                             .mlp_bias = true,
                             .initializer_range = 0.01,
                             .attention_dropout = 0.1};
  EXPECT_EQ(file.config, expected);
}

TEST_F(TomlConfig, AnEmptyFileIsTheDefault) { EXPECT_EQ(read("").config, ModelConfig()); }

TEST_F(TomlConfig, AllProblemsAreFoundAtOnceWithTheirLines) {
  const ConfigFile file = read("family = \"bert\"\nwidht = 48\nlayers = 1.5\ntied_embeddings = 1\nrope_theta = true\n");
  EXPECT_THAT(file.problems,
              ::testing::UnorderedElementsAre(AllOf(HasSubstr("line 1"), HasSubstr("gpt2")),
                                              AllOf(HasSubstr("line 2"), HasSubstr("widht is no key")),
                                              AllOf(HasSubstr("line 3"), HasSubstr("layers has to be a whole number")),
                                              AllOf(HasSubstr("line 4"), HasSubstr("true or false")),
                                              AllOf(HasSubstr("line 5"), HasSubstr("rope_theta has to be a number"))));
}

TEST_F(TomlConfig, WhatCannotBeBuiltIsAProblem) {
  EXPECT_THAT(read("width = 10\nheads = 4\n").problems, ElementsAre(HasSubstr("model.toml")));
}

TEST_F(TomlConfig, WhatIsNoTomlIsAProblem) {
  EXPECT_THAT(read("width = \n").problems, ElementsAre(HasSubstr("line 1")));
  EXPECT_THAT(read_toml_config("/nowhere/model.toml").problems, ElementsAre(HasSubstr("/nowhere/model.toml")));
}

TEST_F(TomlConfig, NumbersThatCannotBeAreProblems) {
  for (const char* size : {"1e400", "-1", "0", "9223372036854775808", "9223372036854775807", "nan", "inf", "\"64\"",
                           "1e3", "true", "[64]", "0x7fffffffffffffff"}) {
    EXPECT_THAT(read(std::string("width = ") + size + "\n").problems, ::testing::Not(IsEmpty())) << size;
    EXPECT_THAT(read(std::string("vocabulary = ") + size + "\n").problems, ::testing::Not(IsEmpty())) << size;
  }
  for (const char* number : {"nan", "inf", "-inf", "1e400"}) {
    EXPECT_THAT(read(std::string("norm_epsilon = ") + number + "\n").problems, ::testing::Not(IsEmpty())) << number;
  }
}

TEST_F(TomlConfig, DeepKeysAreAProblemWithItsLine) {
  std::string key = "a";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  EXPECT_THAT(read("width = 64\n" + key + " = 1\n").problems,
              ElementsAre(AllOf(HasSubstr("line 2"), HasSubstr("nest deeper than 64 levels"))));
}

}  // namespace
}  // namespace models
