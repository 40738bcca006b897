// --init-from with the folder of a run, or with one in it.
#include "options/first_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::IsEmpty;

class FirstWeights : public testing::Test {
 protected:
  FirstWeights() {
    folder_.write("run/config.toml", "[model]\nmodel = 'llama-tiny'\nlayers = 3\nlora = 2\n[training]\nlr = 0.5\n");
    folder_.write("run/metrics.jsonl", "");
    folder_.write("run/tokenizer.model", "");
    folder_.write("run/best/manifest.json", "{}");
    for (const char* file : {"config.json", "model.safetensors"}) {
      folder_.write(std::string("run/model/") + file, "");
      folder_.write(std::string("elsewhere/") + file, "");
    }
  }

  AllOptions options_of(const std::string& place, std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--text", "a", "--init-from", folder_ / place});
    const CommandLine line = parse_command_line(more);
    EXPECT_THAT(line.problems, IsEmpty());
    return line.options;
  }

  TemporaryFolder folder_;
};

TEST_F(FirstWeights, ComeWithTheShapeAndTheTokenizerOfTheirRun) {
  for (const char* place : {"run", "run/", "run/best", "run/model"}) {
    SCOPED_TRACE(place);
    const AllOptions options = options_of(place);
    EXPECT_EQ(options.model.family, models::Family::Llama);
    EXPECT_EQ(options.model.layers, 3);
    EXPECT_EQ(options.tokenizer, folder_ / "run");
    EXPECT_EQ(options.lr, 1e-3);  // the run begins anew
    EXPECT_TRUE(options.chosen.flags.contains("--layers"));
    EXPECT_TRUE(options.chosen.flags.contains("--tokenizer"));
    EXPECT_EQ(options.model.lora.has_value(), place != std::string("run/model"));  // has them merged
  }
}

TEST_F(FirstWeights, GiveWayToFlags) {
  EXPECT_EQ(options_of("run", {"--context", "7"}).model.context, 7);
  EXPECT_EQ(options_of("run", {"--tokenizer", "bytes"}).tokenizer, "bytes");
  const AllOptions other = options_of("run", {"--width", "64"});
  EXPECT_EQ(other.model.family, models::Family::Gpt2);
  EXPECT_EQ(other.model.layers, 4);
  EXPECT_EQ(other.tokenizer, "bytes");
}

TEST_F(FirstWeights, SpellOutAShapeWithoutAName) {
  folder_.write("run/config.toml", "[data]\ntext = 'b'\n");
  const AllOptions options = options_of("run");
  EXPECT_EQ(options.model, models::ModelConfig());
  for (const char* flag : {"--context", "--width", "--layers", "--heads"}) {
    EXPECT_TRUE(options.chosen.flags.contains(flag)) << flag;
  }
}

TEST_F(FirstWeights, OfNoRunComeAlone) {
  const AllOptions options = options_of("elsewhere");
  EXPECT_EQ(options.model, models::ModelConfig());
  EXPECT_EQ(options.tokenizer, "bytes");
  EXPECT_FALSE(options.chosen.flags.contains("--width"));
  folder_.write("config.toml", "[model]\nwidth = 64\n");  // of a person, beside a model
  EXPECT_EQ(options_of("elsewhere").model.width, 128);
}

}  // namespace
}  // namespace trainer
