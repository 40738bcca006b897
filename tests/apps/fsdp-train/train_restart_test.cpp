// fsdp-train that goes on by itself after a failure: the run at the end is the one that was not disturbed, to the bit.
#include <gmock/gmock.h>
#include <signal.h>

#include <random>
#include <thread>

#include "apps/fsdp-train/train_job.h"
#include "apps/fsdp-train/train_program.h"

namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class TrainRestart : public TrainProgram {
 protected:
  std::string weights_of(const std::string& run) const {
    return read_bytes(folder_ / (run + "/model/model.safetensors"));
  }
  // Waits for a rank that is not `before`, unless the job ends.
  static pid_t next_rank(const Job& job, int index, pid_t before) {
    for (;;) {
      const pid_t now = job.rank(index);
      if ((now > 0 && now != before) || job.ends_within(2ms)) return now;
    }
  }
  // The number after this text; -1: the text is not there.
  static int number_after(const std::string& text, const std::string& before) {
    const size_t at = text.find(before);
    return at == std::string::npos ? -1 : std::stoi(text.substr(at + before.size()));
  }
  // Kills a rank of runs with these arguments, once each after so many steps, until one has gone on from memory: a kill
  // in the midst of an update is rare, and begins the run anew, as there is no checkpoint. Each ends as "whole" did.
  void expect_from_memory(const std::string& arguments, size_t lines) const {
    bool from_memory = false;
    for (int kill = 0; kill < 5 && !from_memory; ++kill) {
      const std::string run = "killed-" + std::to_string(lines) + "-" + std::to_string(kill);
      Job job(tiny_arguments(run, arguments + "--hot-restart"), folder_ / run, lines);
      const Ending ending = job.end_by(SIGKILL, job.rank(kill % 2));
      ASSERT_EQ(ending.code, 0) << ending.output;
      EXPECT_EQ(reproducible_steps_of(folder_ / run), reproducible_steps_of(folder_ / "whole"));
      EXPECT_EQ(weights_of(run), weights_of("whole"));
      from_memory = ending.output.find("goes on from memory, after ") != std::string::npos;
      EXPECT_THAT(ending.output,
                  HasSubstr(from_memory ? " steps is in memory.\n" : "Their state in memory is not whole: rank "));
    }
    EXPECT_TRUE(from_memory);
  }
};

// A rank is killed wherever it is, in a save too.
TEST_F(TrainRestart, EndsInTheBitsOfAnUndisturbedRun) {
  const std::string arguments =
      "--ranks 2 --steps 300 --save-every 10 --keep 2 --validate-every 25 --export --threads 1 ";
  ASSERT_EQ(tiny("whole", arguments).code, 0);
  for (const int rank : {0, 1}) {
    const std::string run = "killed-" + std::to_string(rank);
    const size_t lines = 1 + std::random_device()() % 200;
    SCOPED_TRACE("rank " + std::to_string(rank) + " after " + std::to_string(lines) + " lines");
    Job job(tiny_arguments(run, arguments + "--max-restarts 3"), folder_ / run, lines);
    const Ending ending = job.end_by(SIGKILL, job.rank(rank));
    ASSERT_EQ(ending.code, 0) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr("was killed by signal 9 (Killed); the other ranks were ended. Starting all 2 "
                                         "again (restart 1).\n"));
    EXPECT_EQ(reproducible_steps_of(folder_ / run), reproducible_steps_of(folder_ / "whole"));
    EXPECT_EQ(weights_of(run), weights_of("whole"));
  }
}

TEST_F(TrainRestart, GoesOnFromMemory) {
  const std::string arguments = "--ranks 2 --steps 40 --micro-batches 40 --validate-every 15 --export --threads 1 ";
  ASSERT_EQ(tiny("whole", arguments).code, 0);
  expect_from_memory(arguments, 10);
}

// The first loss scales are more than the gradients of one byte have room for: the steps before the kill were skipped,
// or had another scale than the first.
TEST_F(TrainRestart, GoesOnFromMemoryWithTheLossScale) {
  const std::string arguments =
      "--ranks 2 --steps 20 --micro-batches 30 --context 1 --batch 1 --param-dtype fp16 --export --threads 1 ";
  ASSERT_EQ(tiny("whole", arguments).code, 0);
  const std::vector<nlohmann::json> steps = reproducible_steps_of(folder_ / "whole");
  ASSERT_EQ(steps.size(), 20u);
  EXPECT_EQ(steps[0]["skipped"], true);
  EXPECT_EQ(steps[8]["skipped"], false);
  EXPECT_LT(steps[8]["loss_scale"], steps[0]["loss_scale"]);
  expect_from_memory(arguments, 1);
  expect_from_memory(arguments, 8);
}

// The ranks that are started again record and validate the step that the killed ones computed. This run spends most of
// its time in validation, so that the kills come there.
TEST_F(TrainRestart, GoesOnFromMemoryWithTheRestOfAStep) {
  const std::string arguments =
      "--ranks 2 --steps 8 --validate-every 1 --validation-fraction 0.5 --validation-windows 4000 --export --threads "
      "1 "
      "--text " +
      folder_.write("long.txt", std::string(60'000, 'a')) + " ";
  ASSERT_EQ(tiny("whole", arguments).code, 0);
  int from_memory = 0;
  for (int kill = 0; kill < 3; ++kill) {
    const std::string run = "killed-" + std::to_string(kill);
    Job job(tiny_arguments(run, arguments + "--hot-restart"), folder_ / run, 3 + 2 * static_cast<size_t>(kill));
    const Ending ending = job.end_by(SIGKILL, job.rank(kill % 2));
    ASSERT_EQ(ending.code, 0) << ending.output;
    EXPECT_EQ(reproducible_steps_of(folder_ / run), reproducible_steps_of(folder_ / "whole"));
    EXPECT_EQ(weights_of(run), weights_of("whole"));
    from_memory += ending.output.find("goes on from memory, after ") != std::string::npos;
  }
  EXPECT_GE(from_memory, 2);  // an update is hit now and then
}

// A save is slow enough to be hit, and updates, in which a kill would begin the run anew, are a small part of a step.
// On a busy machine several steps may pass before the kill.
// Nothing runs beside it (alone.cmake).
using TrainRestartAlone = TrainRestart;
TEST_F(TrainRestartAlone, SavesAtOnceWhereAKillBrokeOffASave) {
  const std::string arguments =
      "--ranks 2 --steps 16 --save-every 10 --width 384 --layers 4 --batch 1 --context 96 --threads 1 --hot-restart ";
  bool broke_off = false;
  for (int kill = 0; kill < 10 && !broke_off; ++kill) {
    const std::string run = "killed-" + std::to_string(kill);
    Job job(tiny_arguments(run, arguments), folder_ / run, 9);
    const auto is_saving = [&] {
      for (const auto& entry : std::filesystem::directory_iterator(folder_ / run)) {
        if (entry.path().filename().string().starts_with("step-10.partial-")) return true;
      }
      return false;
    };
    while (!is_saving() && !job.ends_within(1ms)) {
    }
    std::this_thread::sleep_for(kill * 4ms);  // the save is in memory only from the end of its step on
    const Ending ending = job.end_by(SIGKILL, job.rank(1));
    ASSERT_EQ(ending.code, 0) << ending.output;
    const int held = number_after(ending.output, "goes on from memory, after ");
    broke_off = held >= 10 && held < 15 && !std::filesystem::exists(folder_ / run + "/step-10");
    const std::string next = folder_ / run + "/step-" + std::to_string(held + 1);
    if (broke_off) EXPECT_TRUE(std::filesystem::exists(next)) << ending.output;
  }
  EXPECT_TRUE(broke_off);
}

TEST_F(TrainRestart, OfOneRankGoesOnInItsFreshFolder) {
  std::string arguments = tiny_arguments("nowhere", "--steps 100000 --max-restarts 1");
  const std::string named = "--run " + (folder_ / "nowhere") + " ";
  arguments.erase(arguments.find(named), named.size());
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());  // for the job that is started there
  {
    Job job(arguments, folder_ / "run-1", 3);
    const pid_t first = job.rank(0);
    job.send(SIGKILL, first);
    const pid_t second = next_rank(job, 0, first);
    const Ending ending = job.end_by(SIGKILL, second);
    EXPECT_EQ(ending.code, 128 + SIGKILL) << ending.output;
    EXPECT_THAT(ending.output, AllOf(HasSubstr("Starting all 1 again (restart 1).\n"), Not(HasSubstr("(restart 2)"))));
  }
  std::filesystem::current_path(here);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run-2"));
}

// Its losses would be those of the first time again.
TEST_F(TrainRestart, IsNotOfAFailureThatWouldComeAgain) {
  const Ending ending = tiny("run", "--ranks 2 --steps 50 --lr 1e30 --warmup 0 --max-restarts 3");
  EXPECT_EQ(ending.code, 1) << ending.output;
  EXPECT_THAT(ending.output, AllOf(HasSubstr("is not finite"), Not(HasSubstr("again (restart"))));
  const Ending refused = tiny("run", "--ranks 2 --hot-restart --elastic 1:2 --max-restarts 0");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output, AllOf(HasSubstr("--hot-restart is given with --max-restarts 0"),
                                    HasSubstr("--hot-restart and --elastic are both given")));
}

TEST_F(TrainRestart, EndsARankThatStandsStill) {
  Job job(tiny_arguments("run", "--ranks 2 --steps 1000000 --hang-timeout 1"), folder_ / "run", 3);
  const Ending ending = job.end_by(SIGSTOP, job.rank(1));
  EXPECT_EQ(ending.code, 1) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("rank 0: no progress for 1 s, in step "));
  EXPECT_THAT(read_bytes(folder_ / "run/hang-0.txt"), AllOf(HasSubstr("\nthread "), HasSubstr("  #0 ")));
}

TEST_F(TrainRestart, GoesOnAfterARankStoodStill) {
  const std::string job_of_seconds = "--ranks 2 --steps 60 --micro-batches 20 ";
  ASSERT_EQ(tiny("whole", job_of_seconds).code, 0);
  const std::string arguments = job_of_seconds + "--save-every 2 --max-restarts 1 --hang-timeout 1";
  Job job(tiny_arguments("run", arguments), folder_ / "run", 5);
  const Ending ending = job.end_by(SIGSTOP, job.rank(1));
  EXPECT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, AllOf(HasSubstr("rank 0: no progress for 1 s, in step "),
                                   HasSubstr("Starting all 2 again (restart 1).\n")));
  EXPECT_EQ(losses_of(folder_ / "run"), losses_of(folder_ / "whole"));
}

}  // namespace
