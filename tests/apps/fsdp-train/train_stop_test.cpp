// fsdp-train that is asked to stop: by Ctrl-C, which reaches every process of it, by SIGTERM, which batch systems send
// to the one that they started, and by the end of its terminal or of who reads its output.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "apps/fsdp-train/train_job.h"
#include "apps/fsdp-train/train_program.h"

namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

// SIGTERM and SIGUSR1 ask for a job that goes on later (training/job.h).
constexpr int kGoOnLater = 75;

int code_after(int signal) { return signal == SIGTERM || signal == SIGUSR1 ? kGoOnLater : 128 + signal; }

class TrainStop : public TrainProgram {
 protected:
  std::vector<std::string> checkpoints_of(const std::string& run) const {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / run)) {
      if (entry.path().filename().string().starts_with("step-")) names.push_back(entry.path().filename());
    }
    return names;
  }
};

TEST_F(TrainStop, LeavesTheSameRecordsWhenItGoesOn) {
  const std::string arguments = "--ranks 2 --steps 250 --validate-every 7 --resume auto";
  ASSERT_EQ(tiny("whole", arguments).code, 0);
  const std::vector<json> whole = reproducible_steps_of(folder_ / "whole");
  ASSERT_EQ(whole.size(), 250u);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    const size_t lines = 1 + std::random_device()() % 75;
    SCOPED_TRACE("signal " + std::to_string(signal) + " after " + std::to_string(lines) + " lines");
    const std::string run = "stopped-" + std::to_string(signal);
    Job job(tiny_arguments(run, arguments), folder_ / run, lines);
    const Ending ending = job.end_by(signal, signal == SIGINT ? job.group() : job.launcher());
    EXPECT_EQ(ending.code, code_after(signal)) << ending.output;
    const size_t done = reproducible_steps_of(folder_ / run).size();
    ASSERT_LT(done, whole.size());
    const std::string checkpoint = "step-" + std::to_string(done);
    EXPECT_THAT(checkpoints_of(run), testing::ElementsAre(checkpoint));  // --save-every has asked for none before
    const Ending rest = tiny(run, arguments);
    ASSERT_EQ(rest.code, 0) << rest.output;
    EXPECT_THAT(rest.output, HasSubstr("goes on from " + (folder_ / (run + "/" + checkpoint)) + "\n"));
    EXPECT_EQ(reproducible_steps_of(folder_ / run), whole);
  }
}

// There is nothing to save yet: the run is to be started again as it was.
TEST_F(TrainStop, IsToGoOnLaterWhenItIsAskedWhileRanksStart) {
  for (const std::string ranks : {"1", "2"}) {
    for (const int signal : {SIGTERM, SIGUSR1}) {
      SCOPED_TRACE(ranks + " ranks, signal " + std::to_string(signal));
      const std::string run = "run" + ranks + std::to_string(signal);
      Job job(tiny_arguments(run, "--ranks " + ranks + " --steps 1000000"), folder_ / run, 0);
      const auto has_begun = [&] {
        return ranks == "1" ? job.handles(SIGTERM) && job.handles(SIGUSR1) : job.has_ranks(2);
      };
      while (!has_begun()) ASSERT_FALSE(job.ends_within(1ms));
      const Ending ending = job.end_by(signal, job.launcher());
      EXPECT_EQ(ending.code, kGoOnLater) << ending.output;
    }
  }
}

// A batch system may send it to the processes, and not to what started them.
TEST_F(TrainStop, SavesWhenOneRankAloneIsAsked) {
  Job job(tiny_arguments("run", "--ranks 2 --steps 1000000"), folder_ / "run", 3);
  const Ending ending = job.end_by(SIGTERM, job.rank(1));
  EXPECT_EQ(ending.code, kGoOnLater) << ending.output;
  EXPECT_THAT(checkpoints_of("run"), testing::SizeIs(1));
}

// As a batch system does: notice, and the signal itself while the run still saves.
TEST_F(TrainStop, SavesOnNoticeAndIsNotEndedByTheSignalAfterIt) {
  for (const std::string ranks : {"1", "2"}) {
    const std::string run = "run" + ranks, a_step_of_seconds = " --micro-batches 2000 --steps 1000";
    Job job(tiny_arguments(run, "--ranks " + ranks + a_step_of_seconds), folder_ / run, 0);
    const auto is_heard = [&] {
      return ranks == "1" ? job.takes_wishes() : job.handles_in_rank(SIGTERM, 0) && job.handles_in_rank(SIGTERM, 1);
    };
    while (!is_heard()) ASSERT_FALSE(job.ends_within(5ms));
    job.send(SIGUSR1, job.launcher());
    const Ending ending = job.end_by(SIGTERM, job.launcher());
    EXPECT_EQ(ending.code, kGoOnLater) << ending.output;
    EXPECT_EQ(losses_of(folder_ / run).size(), 1u);
    EXPECT_THAT(checkpoints_of(run), testing::ElementsAre("step-1"));
  }
}

// As a terminal that is hung up sends it: to all processes.
TEST_F(TrainStop, SavesWhenTheTerminalHangsUp) {
  for (const std::string ranks : {"1", "2"}) {
    Job job(tiny_arguments("run" + ranks, "--ranks " + ranks + " --steps 1000000"), folder_ / ("run" + ranks), 3);
    const Ending ending = job.end_by(SIGHUP, job.group());
    EXPECT_EQ(ending.code, 128 + SIGHUP) << ending.output;
    EXPECT_THAT(checkpoints_of("run" + ranks), testing::SizeIs(1));
  }
}

// Then the first line that nobody reads asks to stop, and none ends it before it has saved.
TEST_F(TrainStop, SavesWhenNobodyReadsItsOutput) {
  for (const std::string ranks : {"1", "2"}) {
    const std::string run = "run" + ranks;
    const std::string reader = "sed \"/^step .* loss/q\"";
    const Ending ending = run_command("sh -c '{ " FSDP_TRAIN_PROGRAM " " +
                                      tiny_arguments(run, "--ranks " + ranks + " --steps 1000000 --log-every 1") +
                                      " 2> /dev/null; echo code $? >&2; } | " + reader + "'");
    EXPECT_THAT(ending.output, HasSubstr("code " + std::to_string(128 + SIGPIPE)));
    EXPECT_THAT(checkpoints_of(run), testing::SizeIs(1));
  }
}

TEST_F(TrainStop, TakesATimeoutOfAnyLength) {
  const Ending ending = tiny("run", "--ranks 2 --steps 1 --timeout 1000000000");
  EXPECT_EQ(ending.code, 0) << ending.output;
}

const std::string kAnswer = "stopping after this step; again to quit without saving\n";

// A step of seconds, of which the signal comes near the beginning.
TEST_F(TrainStop, ActsAfterTheStepThatItComesIn) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string run = "run" + std::to_string(signal);
    Job job(tiny_arguments(run, "--micro-batches 2000 --steps 1000"), folder_ / run, 0);
    while (!job.takes_wishes()) ASSERT_FALSE(job.ends_within(5ms));
    const Ending ending = job.end_by(signal, job.launcher());
    EXPECT_EQ(ending.code, code_after(signal)) << ending.output;
    EXPECT_EQ(losses_of(folder_ / run).size(), 1u);
    EXPECT_THAT(checkpoints_of(run), testing::ElementsAre("step-1"));
    EXPECT_EQ(ending.output.find(kAnswer), ending.output.rfind(kAnswer));
    EXPECT_THAT(ending.output, HasSubstr(kAnswer));
    EXPECT_THAT(ending.output, HasSubstr("go on with: fsdp-train --resume " + (folder_ / run) + "\n"));
  }
}

// Ctrl-C reaches every rank, and the launcher asks them once more: one answer.
TEST_F(TrainStop, AnswersOnceForAllRanks) {
  Job job(tiny_arguments("run", "--ranks 2 --steps 1000000"), folder_ / "run", 3);
  const Ending ending = job.end_by(SIGINT, job.group());
  EXPECT_EQ(ending.code, 128 + SIGINT) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr(kAnswer));
  EXPECT_EQ(ending.output.find(kAnswer), ending.output.rfind(kAnswer)) << ending.output;
}

// More than what a second signal has to come after to be meant as one (stop_request.h).
constexpr auto kPause = 2s;

TEST_F(TrainStop, EndsAtOnceWhenItIsAskedAgain) {
  const std::string a_step_without_end = "--micro-batches 65536 --steps 1";
  Job job(tiny_arguments("run", a_step_without_end), folder_ / "run", 0);
  while (!job.takes_wishes()) ASSERT_FALSE(job.ends_within(5ms));
  job.send(SIGTERM, job.launcher());
  ASSERT_FALSE(job.ends_within(kPause)) << "the step was over";
  const Ending ending = job.end_by(SIGTERM, job.launcher());
  EXPECT_EQ(ending.code, 128 + SIGTERM) << ending.output;
  EXPECT_THAT(checkpoints_of("run"), testing::IsEmpty());
}

TEST_F(TrainStop, EndsAllRanksAtOnceWhenItIsAskedAgain) {
  Job job(tiny_arguments("run", "--ranks 2 --steps 1000000"), folder_ / "run", 3);
  job.send(SIGSTOP, job.rank(1));  // the other one waits for it
  job.send(SIGINT, job.group());
  ASSERT_FALSE(job.ends_within(kPause));
  const Ending ending = job.end_by(SIGINT, job.group());
  EXPECT_EQ(ending.code, 128 + SIGINT) << ending.output;
  EXPECT_EQ(kill(job.group(), 0), -1) << "a rank is left";
  EXPECT_THAT(checkpoints_of("run"), testing::IsEmpty());
}

}  // namespace
