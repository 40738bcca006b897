// --epochs and --steps together: what is reached first ends the run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "options/command_line.h"
#include "options/configuration_file.h"
#include "options/resolve.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

// Of a run over 800 windows, of which a step takes 8.
int64_t steps_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--text", "a"});
  CommandLine line = parse_command_line(arguments);
  EXPECT_THAT(line.problems, IsEmpty());
  EXPECT_THAT(resolve(line.options, {.ranks = 1, .windows = 800}), IsEmpty());
  return line.options.steps;
}

TEST(Epochs, EndARunWhereTheyComeFirst) {
  EXPECT_EQ(steps_of({"--epochs", "2"}), 200);
  EXPECT_EQ(steps_of({"--epochs", "2", "--steps", "150"}), 150);
  EXPECT_EQ(steps_of({"--epochs", "2", "--steps", "250"}), 200);
}

TEST(Epochs, WithoutAStepAreRefused) {
  AllOptions options;
  options.epochs = 1;
  EXPECT_THAT(
      resolve(options, {.ranks = 2, .windows = 15}),
      testing::ElementsAre(HasSubstr("--epochs 1 over 15 sequences of training data are less than a step, which "
                                     "takes 16")));
}

TEST(Epochs, AreKeptWithTheStepsInARunsConfiguration) {
  const TemporaryFolder folder;
  CommandLine line = parse_command_line({"--text", "a", "--epochs", "2", "--steps", "250"});
  EXPECT_THAT(resolve(line.options, {.ranks = 1, .windows = 800}), IsEmpty());
  const std::string saved = configuration_toml(line.options);
  EXPECT_THAT(saved, AllOf(HasSubstr("epochs = 2.0\n"), HasSubstr("\nsteps = 250\n")));
  const std::string file = folder.write("config.toml", saved);
  EXPECT_EQ(steps_of({"--config", file}), 200);
  EXPECT_EQ(steps_of({"--config", file, "--epochs", "1"}), 100);
  EXPECT_EQ(steps_of({"--config", file, "--steps", "150"}), 150);
}

}  // namespace
}  // namespace trainer
