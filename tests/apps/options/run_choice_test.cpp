// --resume with the folder of a run, or of one of its checkpoints.
#include "options/run_choice.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "options/resolve.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RunChoice : public testing::Test {
 protected:
  RunChoice() {
    folder_.write("first/config.toml", "[data]\ntext = 'a'\n[training]\nlr = 0.5\n[output]\nrun = 'elsewhere'\n");
    folder_.write("first/metrics.jsonl", "");
    folder_.write("first/step-4/manifest.json", "{}");
  }

  TemporaryFolder folder_;
};

TEST_F(RunChoice, OfARunIsItsFolderAndItsOptions) {
  for (const std::string end : {"", "/"}) {
    const CommandLine line = parse_command_line({"--resume", folder_ / "first" + end, "--steps", "900"});
    EXPECT_THAT(line.problems, IsEmpty());
    EXPECT_EQ(line.options.run, folder_ / "first");
    EXPECT_EQ(line.options.resume, "auto");
    EXPECT_EQ(line.options.text, "a");
    EXPECT_EQ(line.options.lr, 0.5);
    EXPECT_EQ(line.options.steps, 900);
  }
}

TEST_F(RunChoice, OfACheckpointIsItsRun) {
  const CommandLine line = parse_command_line({"--resume", folder_ / "first/step-4"});
  EXPECT_THAT(line.problems, IsEmpty());
  EXPECT_EQ(line.options.run, folder_ / "first");
  EXPECT_EQ(line.options.resume, folder_ / "first/step-4");
  EXPECT_EQ(line.options.lr, 0.5);
  EXPECT_EQ(parse_command_line({"--resume", folder_ / "first/step-4", "--run", "other"}).options.run, "other");
}

TEST_F(RunChoice, IsOneFolder) {
  EXPECT_THAT(parse_command_line({"--resume", folder_ / "first", "--run", folder_ / "other"}).problems,
              ElementsAre(HasSubstr("and --run another folder")));
  EXPECT_THAT(parse_command_line({"--resume", folder_ / "first", "--run", folder_ / "first/"}).problems, IsEmpty());
}

TEST_F(RunChoice, OfNoRunIsAProblem) {
  EXPECT_THAT(parse_command_line({"--text", "a", "--resume", "auto"}).problems,
              ElementsAre(HasSubstr("--resume auto goes on with the run in --run, which is not given.")));
  EXPECT_THAT(parse_command_line({"--text", "a", "--resume", "auto", "--run", "b"}).problems, IsEmpty());
  EXPECT_THAT(parse_command_line({"--text", "a", "--resume", "never"}).problems, IsEmpty());
}

TEST_F(RunChoice, LeavesTheRunsFilesWhereTheFlagsDo) {
  folder_.write("files/config.toml",
                "[data]\ntext = 'a'\n[sharding]\noffload = 'all'\noffload_directory = '/scratch'\n");
  const CommandLine resumed = parse_command_line({"--resume", folder_ / "files", "--offload", "none"});
  EXPECT_THAT(resumed.problems, IsEmpty());
  EXPECT_EQ(resumed.options.offload_directory, "");
  const CommandLine evaluated = parse_command_line({"--run", folder_ / "files", "--eval-only"});
  EXPECT_THAT(evaluated.problems, IsEmpty());
  EXPECT_EQ(evaluated.options.offload, "all");  // it may be too large for the memory
  for (const char* offload : {"all", "optimizer"}) {
    folder_.write("files/config.toml", fmt::format("[data]\ntext = 'a'\n[sharding]\noffload = '{}'\n", offload));
    const CommandLine line = parse_command_line({"--run", folder_ / "files", "--eval-only"});
    EXPECT_THAT(line.problems, IsEmpty());
    EXPECT_EQ(line.options.offload, "none");
  }
}

TEST_F(RunChoice, KeepsTheStepOnOtherRanks) {
  folder_.write("many/config.toml", "[data]\ntext = 'a'\n[ranks]\nranks = 4\n[training]\nbatch = 3\n");
  const auto options_of = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--resume", folder_ / "many"});
    const CommandLine line = parse_command_line(more);
    EXPECT_THAT(line.problems, IsEmpty());
    return line.options;
  };
  EXPECT_EQ(options_of({}).micro_batches, 1);
  EXPECT_FALSE(options_of({}).chosen.flags.contains("--micro-batches"));
  EXPECT_EQ(options_of({"--ranks", "2"}).micro_batches, 2);
  EXPECT_TRUE(options_of({"--ranks", "2"}).chosen.flags.contains("--micro-batches"));
  EXPECT_EQ(options_of({"--ranks", "1"}).micro_batches, 4);
  EXPECT_EQ(options_of({"--ranks", "2", "--batch", "6"}).micro_batches, 1);
  EXPECT_EQ(options_of({"--ranks", "3"}).micro_batches, 1);  // no number does
  EXPECT_EQ(options_of({"--ranks", "2", "--micro-batches", "1"}).micro_batches, 1);
  folder_.write("many/config.toml", "[data]\ntext = 'a'\n[ranks]\nelastic = '1:4'\n");
  EXPECT_EQ(options_of({}).micro_batches, 1);
  EXPECT_EQ(options_of({"--ranks", "2"}).micro_batches, 2);
  folder_.write("many/config.toml", "[data]\ntext = 'a'\n[ranks]\nranks = 4\n");
  AllOptions job = options_of({});  // a launcher's ranks
  EXPECT_THAT(resolve(job, {.ranks = 2, .windows = 100, .is_known = true}), IsEmpty());
  EXPECT_EQ(job.micro_batches, 2);
}

TEST_F(RunChoice, OfAnotherConfigurationKeepsThat) {
  const std::string other = folder_.write("other.toml", "[data]\ntext = 'b'\n[output]\nrun = 'third'\n");
  const CommandLine line = parse_command_line({"--config", other, "--resume", folder_ / "first/step-4"});
  EXPECT_EQ(line.options.text, "b");
  EXPECT_EQ(line.options.run, "third");
}

}  // namespace
}  // namespace trainer
