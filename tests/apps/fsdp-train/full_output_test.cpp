// Standard output on a full disk: a result that is lost is an error; a training goes on, and says so at its end.
#include <gmock/gmock.h>

#include <filesystem>

#include "apps/fsdp-train/train_program.h"

namespace {

using testing::HasSubstr;

// /dev/full takes nothing. What the command prints on standard error is its output.
Ending run_full(const std::string& arguments) {
  return run_command("sh -c '" FSDP_TRAIN_PROGRAM " " + arguments + " >/dev/full'");
}

constexpr const char* kError =
    "fsdp-train: cannot write to standard output: No space left on device. Free space on its disk, or send the output "
    "elsewhere.\n";

class TrainFullOutput : public TrainProgram {
 protected:
  // Options of a run that was trained.
  std::string trained() {
    const Ending ending = tiny("run", "--steps 2");
    EXPECT_EQ(ending.code, 0) << ending.output;
    return folder_ / "run";
  }
  static void expect_error(const std::string& arguments) {
    const Ending ending = run_full(arguments);
    EXPECT_EQ(ending.code, 1) << arguments;
    EXPECT_EQ(ending.output, kError) << arguments;
  }
};

TEST_F(TrainFullOutput, IsAnErrorOfEachCommandThatPrintsItsResult) {
  for (const char* arguments :
       {"--help", "-h", "help sample", "--version", "man", "models", "completion bash", "completion zsh",
        "completion fish", "doctor", "--dry-run --ranks 2", "--dry-run --peak-flops 1T"}) {
    expect_error(arguments);
  }
}

TEST_F(TrainFullOutput, IsAnErrorOfEachCommandThatPrintsTheResultOfARun) {
  const std::string run = trained();
  for (const std::string ranks : {"1", "2"}) {
    expect_error("--eval-only --threads 1 --run " + run + " --ranks " + ranks);
    expect_error("--eval-only --threads 1 --json --run " + run + " --ranks " + ranks);
  }
  expect_error("sample --threads 1 --sample-length 4 --checkpoint " + run);
  expect_error("sample --threads 1 --sample-length 4 --samples 3 --checkpoint " + run);
  expect_error("report " + run);
  EXPECT_TRUE(std::filesystem::exists(run + "/report.html"));
  expect_error("prepare --text " + text_ + " --output " + (folder_ / "tokens"));
}

TEST_F(TrainFullOutput, StopsNoTraining) {
  for (const std::string ranks : {"1", "2"}) {
    const Ending ending = run_full(tiny_arguments("run-" + ranks, "--steps 4 --log-every 1 --ranks " + ranks));
    EXPECT_EQ(ending.code, 0) << ending.output;
    EXPECT_EQ(ending.output,
              "fsdp-train: some of the output was lost: cannot write to standard output: No space left on device. The "
              "run's folder has its record. Free space on its disk, or send the output elsewhere.\n");
    EXPECT_THAT(losses_of(folder_ / ("run-" + ranks)), testing::SizeIs(4));
  }
}

TEST_F(TrainFullOutput, IsAnErrorBeyondALimitOnTheSizeOfFiles) {
  const Ending ending = run_command("sh -c 'ulimit -f 1; " FSDP_TRAIN_PROGRAM " man >" + (folder_ / "page") + "'");
  EXPECT_EQ(ending.code, 1);
  EXPECT_THAT(ending.output, HasSubstr("cannot write to standard output: File too large. Raise the limit"));
}

// The reader has seen enough; a parent may have the programs ignore the signal that says so.
TEST_F(TrainFullOutput, IsNoErrorWhereTheReaderHasClosedThePipe) {
  const Ending ending =
      run_command("bash -c 'trap \"\" PIPE; " FSDP_TRAIN_PROGRAM " man | true; echo ${PIPESTATUS[0]}'");
  EXPECT_EQ(ending.output, "0\n");
}

}  // namespace
