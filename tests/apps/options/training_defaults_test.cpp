// The number of steps and the learning rate of a training that names neither.
#include "options/training_defaults.h"

#include <gtest/gtest.h>

#include "options/command_line.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

AllOptions options_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--text", "a.txt"});
  const CommandLine line = parse_command_line(std::move(arguments));
  EXPECT_TRUE(line.problems.empty()) << line.problems.front();
  return line.options;
}

TEST(TrainingDefaults, LetASmallModelLearnWords) {
  const AllOptions options = options_of({});
  EXPECT_EQ(options.steps, 1000);
  EXPECT_EQ(options.lr, 4e-3);
}

TEST(TrainingDefaults, FollowTheWidth) {
  EXPECT_EQ(options_of({"--width", "16", "--heads", "2"}).lr, 4e-3);
  EXPECT_EQ(options_of({"--width", "256"}).lr, 2e-3);
  EXPECT_EQ(options_of({"--width", "512", "--layers", "12"}).lr, 1e-3);
  EXPECT_EQ(options_of({"--width", "1024"}).lr, 5e-4);
}

TEST(TrainingDefaults, GiveWayToEachOption) {
  const AllOptions slow = options_of({"--lr", "1e-4"}), few = options_of({"--steps", "7", "--width", "256"});
  EXPECT_EQ(slow.lr, 1e-4);
  EXPECT_EQ(slow.steps, 1000);
  EXPECT_EQ(few.steps, 7);
  EXPECT_EQ(few.lr, 2e-3);
  const TemporaryFolder folder;
  const AllOptions in_file = options_of({"--config", folder.write("a.toml", "[training]\nlr = 1e-3\n")});
  EXPECT_EQ(in_file.lr, 1e-3);
  EXPECT_EQ(in_file.steps, 1000);
}

TEST(TrainingDefaults, AreOthersForNamedModelsGivenWeightsAndAdapters) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--model", "gpt2"}, {"--init-from", "folder"}, {"--lora", "8"}}) {
    const AllOptions options = options_of(arguments);
    EXPECT_EQ(options.steps, 300) << arguments[0];
    EXPECT_EQ(options.lr, 1e-3) << arguments[0];
  }
}

// Folders as an earlier version wrote them, without a version of defaults.
TEST(TrainingDefaults, OfARunStayThoseThatItBeganWith) {
  const TemporaryFolder folder;
  const std::string run = folder / "run";
  folder.write("run/config.json", R"({"steps": 300, "lr": 0.001})");
  folder.write("run/config.toml", "[data]\ntext = \"a.txt\"\n[training]\n# lr = 0.001\n");
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--run", run},
                                                    {"--resume", run},
                                                    {"--config", run + "/config.toml", "--run", "other"}}) {
    const AllOptions options = options_of(arguments);
    EXPECT_EQ(options.steps, 300) << arguments[0];
    EXPECT_EQ(options.lr, 1e-3) << arguments[0];
    EXPECT_EQ(options.defaults_version, 1) << arguments[0];
  }
  EXPECT_EQ(options_of({"--run", run, "--resume", "never"}).steps, 1000);
  folder.write("run/config.json", R"({"steps": 1000, "lr": 0.004, "defaults_version": 2})");
  EXPECT_EQ(options_of({"--run", run}).steps, 1000);
  folder.write("run/config.json", "{");
  EXPECT_EQ(options_of({"--run", run}).steps, 1000);
}

}  // namespace
}  // namespace trainer
