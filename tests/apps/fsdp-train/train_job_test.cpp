// fsdp-train as a job of several processes: under a launcher, and with a rank that dies or stops in mid-training.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <filesystem>

#include "apps/fsdp-train/train_job.h"
#include "apps/fsdp-train/train_program.h"
#include "support/required.h"

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST_F(TrainProgram, HasTheSameLossesUnderTorchrun) {
  const std::string torchrun = FSDP_TORCHRUN;
  if (torchrun.empty()) FSDP_SKIP_TEST("this LibTorch comes without torchrun");
  ASSERT_EQ(tiny("launched", "--ranks 2 --steps 6").code, 0);
  // Without -- torchrun takes --run for an abbreviation of its own --run-path.
  const Ending ending = run_command(torchrun + " --no-python --nproc-per-node 2 -- " FSDP_TRAIN_PROGRAM " " +
                                    tiny_arguments("torchrun", "--steps 6"));
  ASSERT_EQ(ending.code, 0) << ending.output;
  const std::vector<double> launched = losses_of(folder_ / "launched");
  EXPECT_EQ(launched.size(), 6u);
  EXPECT_EQ(losses_of(folder_ / "torchrun"), launched);
}

// Arguments of a job that would train for hours.
std::string endless(const std::string& arguments) { return arguments + " --steps 1000000"; }

constexpr size_t kSomeLines = 3;

TEST_F(TrainProgram, EndsWhenARankIsKilled) {
  for (int rank : {0, 1}) {
    const std::string run = "killed-" + std::to_string(rank);
    Job job(endless(tiny_arguments(run, "--ranks 2")), folder_ / run, kSomeLines);
    const Ending ending = job.end_by(SIGKILL, job.rank(rank));
    EXPECT_EQ(ending.code, 128 + SIGKILL) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr("rank " + std::to_string(rank) + " was killed by signal 9"));
  }
}

TEST_F(TrainProgram, EndsAfterTheTimeoutWhenARankIsStopped) {
  Job job(endless(tiny_arguments("stopped", "--ranks 2 --timeout 3")), folder_ / "stopped", kSomeLines);
  const Ending ending = job.end_by(SIGSTOP, job.rank(1));
  EXPECT_EQ(ending.code, 1) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("rank 1 did not answer within 3000 ms"));
}

TEST_F(TrainProgram, SavesAndEndsWhenAskedTo) {
  for (const int ranks : {1, 2}) {
    const std::string run = "terminated-" + std::to_string(ranks);
    const std::string arguments = tiny_arguments(run, "--schedule constant --ranks " + std::to_string(ranks));
    Job job(endless(arguments), folder_ / run, kSomeLines);
    const Ending ending = job.end_by(SIGTERM, job.launcher());
    constexpr int kGoOnLater = 75;
    EXPECT_EQ(ending.code, kGoOnLater) << ending.output;
    const size_t steps = losses_of(folder_ / run).size();
    EXPECT_TRUE(std::filesystem::exists(folder_ / (run + "/step-" + std::to_string(steps) + "/manifest.json")));
    const Ending resumed = run_train(arguments + " --steps " + std::to_string(steps + 2));
    EXPECT_EQ(resumed.code, 0) << resumed.output;
    EXPECT_EQ(losses_of(folder_ / run).size(), steps + 2);
  }
}

TEST_F(TrainProgram, EndsAllRanksOnInterrupt) {
  Job job(endless(tiny_arguments("interrupted", "--ranks 2")), folder_ / "interrupted", kSomeLines);
  const Ending ending = job.end_by(SIGINT, job.launcher());
  EXPECT_EQ(ending.code, 130) << ending.output;
}

}  // namespace
