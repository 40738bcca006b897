// fsdp-train as a job of several processes: under a launcher, and with a rank that dies or stops in mid-training.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "apps/fsdp-train/train_program.h"

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST_F(TrainProgram, HasTheSameLossesUnderTorchrun) {
  const std::string torchrun = FSDP_TORCHRUN;
  if (torchrun.empty()) GTEST_SKIP() << "this LibTorch comes without torchrun";
  ASSERT_EQ(tiny("launched", "--ranks 2 --steps 6").code, 0);
  // Without -- torchrun takes --run for an abbreviation of its own --run-path.
  const Ending ending = run_command(torchrun + " --no-python --nproc-per-node 2 -- " FSDP_TRAIN_PROGRAM " " +
                                    tiny_arguments("torchrun", "--steps 6"));
  ASSERT_EQ(ending.code, 0) << ending.output;
  const std::vector<double> launched = losses_of(folder_ / "launched");
  EXPECT_EQ(launched.size(), 6u);
  EXPECT_EQ(losses_of(folder_ / "torchrun"), launched);
}

// A job that would train for hours, started in the background.
class Job {
 public:
  // Returns when it has done some steps.
  Job(const std::string& arguments, std::string run, const std::string& pid_file) : run_(std::move(run)) {
    const std::string command =
        "sh -c 'echo $$ > " + pid_file + "; exec " FSDP_TRAIN_PROGRAM " " + arguments + " --steps 1000000'";
    ending_ = std::async(std::launch::async, [command] { return run_command(command); });
    while (complete_lines() < 3 && ending_.wait_for(20ms) != std::future_status::ready) continue;
    std::ifstream(pid_file) >> launcher_;
  }

  pid_t launcher() const { return launcher_; }
  // The process that is this rank: ranks are forked in order.
  pid_t rank(int index) const {
    const std::string id = std::to_string(launcher_);
    std::ifstream children("/proc/" + id + "/task/" + id + "/children");
    pid_t process = -1;
    for (int i = 0; i <= index; ++i) children >> process;
    return process;
  }

  struct Outcome {
    Ending ending;
    std::chrono::steady_clock::duration after;
  };
  Outcome outcome_of(int signal, pid_t process) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(kill(process, signal), 0);
    Ending ending = ending_.get();
    return {std::move(ending), std::chrono::steady_clock::now() - begin};
  }

 private:
  // The last line may be half-written.
  int complete_lines() const {
    const std::string text = read_bytes(run_ + "/metrics.jsonl");
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }

  std::string run_;
  std::future<Ending> ending_;
  pid_t launcher_ = -1;
};

constexpr auto kFaultDeadline = 5s;

TEST_F(TrainProgram, EndsWhenARankIsKilled) {
  for (int rank : {0, 1}) {
    const std::string run = "killed-" + std::to_string(rank);
    Job job(tiny_arguments(run, "--ranks 2"), folder_ / run, folder_ / "pid");
    const Job::Outcome outcome = job.outcome_of(SIGKILL, job.rank(rank));
    EXPECT_EQ(outcome.ending.code, 128 + SIGKILL) << outcome.ending.output;
    EXPECT_THAT(outcome.ending.output, HasSubstr("rank " + std::to_string(rank) + " was killed by signal 9"));
    EXPECT_LT(outcome.after, kFaultDeadline);
  }
}

TEST_F(TrainProgram, EndsAfterTheTimeoutWhenARankIsStopped) {
  constexpr auto timeout = 3s;
  Job job(tiny_arguments("stopped", "--ranks 2 --timeout 3"), folder_ / "stopped", folder_ / "pid");
  const Job::Outcome outcome = job.outcome_of(SIGSTOP, job.rank(1));
  EXPECT_EQ(outcome.ending.code, 1) << outcome.ending.output;
  EXPECT_THAT(outcome.ending.output, HasSubstr("rank 1 did not answer within 3000 ms"));
  EXPECT_LT(outcome.after, timeout + kFaultDeadline);
}

TEST_F(TrainProgram, SavesAndEndsWhenAskedTo) {
  for (const int ranks : {1, 2}) {
    const std::string run = "terminated-" + std::to_string(ranks);
    const std::string arguments = tiny_arguments(run, "--schedule constant --ranks " + std::to_string(ranks));
    Job job(arguments, folder_ / run, folder_ / "pid");
    const Job::Outcome outcome = job.outcome_of(SIGTERM, job.launcher());
    EXPECT_EQ(outcome.ending.code, 128 + SIGTERM) << outcome.ending.output;
    const size_t steps = losses_of(folder_ / run).size();
    EXPECT_TRUE(std::filesystem::exists(folder_ / (run + "/step-" + std::to_string(steps) + "/manifest.json")));
    const Ending resumed = run_train(arguments + " --steps " + std::to_string(steps + 2));
    EXPECT_EQ(resumed.code, 0) << resumed.output;
    EXPECT_EQ(losses_of(folder_ / run).size(), steps + 2);
  }
}

TEST_F(TrainProgram, EndsAllRanksOnInterrupt) {
  Job job(tiny_arguments("interrupted", "--ranks 2"), folder_ / "interrupted", folder_ / "pid");
  const Job::Outcome outcome = job.outcome_of(SIGINT, job.launcher());
  EXPECT_EQ(outcome.ending.code, 130) << outcome.ending.output;
  EXPECT_LT(outcome.after, kFaultDeadline);
}

}  // namespace
