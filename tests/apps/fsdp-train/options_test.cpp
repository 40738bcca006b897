#include "fsdp-train/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<std::string> problems_of(std::vector<std::string> arguments) {
  return parse_command_line(std::move(arguments)).problems;
}

TEST(Options, DefaultsNeedOnlyAText) {
  const CommandLine line = parse_command_line({"--text", "a.txt"});
  EXPECT_THAT(line.problems, IsEmpty());
  EXPECT_THAT(line.help, IsEmpty());
  EXPECT_EQ(line.options.text, "a.txt");
  EXPECT_EQ(line.options.warmup, 60);  // a fifth of 300 steps
}

TEST(Options, AreTakenAsGiven) {
  const CommandLine line =
      parse_command_line({"--text=a.txt", "--run", "out", "--ranks", "4", "--lr", "1e-4", "--prompt", "-- so",
                          "--warmup", "0", "--micro-batches", "2", "--seed", "3"});
  EXPECT_THAT(line.problems, IsEmpty());
  EXPECT_EQ(line.options.run, "out");
  EXPECT_EQ(line.options.ranks, 4);
  EXPECT_EQ(line.options.lr, 1e-4);
  EXPECT_EQ(line.options.prompt, "-- so");
  EXPECT_EQ(line.options.warmup, 0);
  EXPECT_EQ(line.options.tokens_per_step(), 4 * 2 * 8 * 128);
}

TEST(Options, AllProblemsAreFoundAtOnce) {
  EXPECT_THAT(problems_of({"--ranks", "0", "--steps", "many", "--widht", "12", "--heads", "3", "--lr", "-1", "--warmup",
                           "400", "--clip"}),
              UnorderedElementsAre(
                  "--ranks is 0; it must be at least 1.", "--steps: 'many' is not a whole number.",
                  "'--widht' is no option of this program.", "--width 128 is not a multiple of --heads 3.",
                  "--lr is -1; it must be a number above 0.", "--warmup 400 is more than --steps 300.",
                  "--clip needs a value.", "--text is missing: name a file, or a folder of files, to learn from."));
}

TEST(Options, AForgottenValueDoesNotSwallowTheNextOption) {
  EXPECT_THAT(problems_of({"--text", "a", "--steps", "--batch", "0"}),
              UnorderedElementsAre("--steps needs a value.", "--batch is 0; it must be at least 1."));
}

TEST(Options, NumbersThatAreNone) {
  EXPECT_THAT(problems_of({"--text", "a", "--lr", "nan"}), ElementsAre("--lr is nan; it must be a number above 0."));
  EXPECT_THAT(problems_of({"--text", "a", "--clip", "inf"}),
              ElementsAre("--clip is inf; it must be a number above 0."));
  EXPECT_THAT(problems_of({"--text", "a", "--steps", "1.5"}), ElementsAre("--steps: '1.5' is not a whole number."));
  EXPECT_THAT(problems_of({"--text", "a", "--steps", "99999999999999999999"}),
              ElementsAre("--steps is 9223372036854775807; it must be at most 1000000000."));
  EXPECT_THAT(problems_of({"--text", "a", "--layers", "9999999999"}),
              ElementsAre("--layers is 9999999999; it must be at most 4096."));
}

TEST(Options, TheLastOfTwoCounts) {
  const CommandLine line = parse_command_line({"--text", "a", "--steps", "5", "--steps", "50"});
  EXPECT_THAT(line.problems, IsEmpty());
  EXPECT_EQ(line.options.steps, 50);
}

TEST(Options, AMistakeCountsOnce) {
  EXPECT_THAT(problems_of({"--text"}), ElementsAre("--text needs a value."));
  EXPECT_THAT(problems_of({"--text", "a", "--color", "red"}), ElementsAre("'--color' is no option of this program."));
}

TEST(Options, StrayWordsAreNamed) {
  EXPECT_THAT(problems_of({"--text", "a", "b"}), ElementsAre("'b' is no option of this program."));
}

TEST(Options, HelpHasGroupsAndDefaults) {
  const CommandLine line = parse_command_line({"--help"});
  EXPECT_THAT(line.problems, IsEmpty());
  for (const char* part : {"Data and results", "Model", "Ranks", "Sharding", "Training", "What is shown and kept",
                           "--micro-batches", "[full-shard]", "[300]", "[0.001]", "seconds"}) {
    EXPECT_THAT(line.help, HasSubstr(part));
  }
}

}  // namespace
}  // namespace trainer
