// Options that `fsdp-train sample` takes from the checkpoint cannot be given.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "options/command_line.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(SampleOptions, LeaveTheRanksToTheCheckpoint) {
  for (const auto& [flag, value] :
       {std::pair("--ranks", "2"), std::pair("--strategy", "no-shard"), std::pair("--shard-group-size", "1")}) {
    EXPECT_THAT(parse_command_line({"sample", "--checkpoint", "a", flag, value}).problems,
                ElementsAre(fmt::format("'{}' is an option of fsdp-train train, not of fsdp-train sample.", flag)));
  }
}

TEST(SampleOptions, TakeTheirPlaceAsAWordAnywhere) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"sample", "run-1", "--prompt", "x"},
                                                    {"sample", "--prompt", "x", "run-1"},
                                                    {"sample", "--top-k", "3", "run-1", "--prompt", "x"},
                                                    {"sample", "--checkpoint", "run-1", "--prompt", "x"}}) {
    const CommandLine line = parse_command_line(arguments);
    EXPECT_THAT(line.problems, IsEmpty());
    EXPECT_EQ(line.options.checkpoint, "run-1");
    EXPECT_EQ(line.options.prompt, "x");
    EXPECT_TRUE(line.asks("--checkpoint"));
  }
}

TEST(SampleOptions, TakeOnePlace) {
  EXPECT_THAT(parse_command_line({"sample", "a", "--top-k", "3", "b"}).problems,
              ElementsAre("'b' is one word too many: --checkpoint is given already."));
  EXPECT_THAT(parse_command_line({"sample", "a", "--checkpoint", "b"}).problems,
              ElementsAre("'a' is one word too many: --checkpoint is given already."));
  EXPECT_THAT(parse_command_line({"sample", "--colour", "red", "run-1"}).problems,
              ElementsAre(HasSubstr("'--colour' is no option")));  // whose value is red
}

// The shape of a run's model comes from the run, wherever it is named.
TEST(SampleOptions, ReadTheConfigurationOfTheirPlace) {
  const TemporaryFolder folder;
  folder.write("run/config.toml", "[samples]\ntop_k = 7\n");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"sample", folder / "run", "--seed", "3"}, {"sample", "--seed", "3", folder / "run"}}) {
    const CommandLine line = parse_command_line(arguments);
    EXPECT_THAT(line.problems, IsEmpty());
    EXPECT_EQ(line.options.top_k, 7);
    EXPECT_EQ(line.options.seed, 3);
  }
}

}  // namespace
}  // namespace trainer
