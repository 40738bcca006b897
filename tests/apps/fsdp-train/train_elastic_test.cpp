// fsdp-train on a number of ranks that changes: the bits are those of the run on all of them.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>

#include "apps/fsdp-train/train_job.h"
#include "apps/fsdp-train/train_program.h"
#include "support/required.h"

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class TrainElastic : public TrainProgram {
 protected:
  std::string weights_of(const std::string& run) const {
    return read_bytes(folder_ / (run + "/model/model.safetensors"));
  }
  size_t steps_of(const std::string& run) const { return losses_of(folder_ / run).size(); }
  // Returns once the run has a step more than `done` after its latest start, or has ended.
  void wait_for_step(const Job& job, const std::string& run, int ranks) const {
    const auto goes_on = [&] {
      const auto starts = events_of(folder_ / run, "run_start");
      return !starts.empty() && starts.back()["ranks"] == ranks && steps_of(run) > starts.back()["step"];
    };
    while (!goes_on() && !job.ends_within(5ms)) {
    }
  }
};

// Four ranks; three, of which one has two of the four micro-batches of a step; two; and four again. Dropout too.
TEST_F(TrainElastic, EndsInTheBitsOfTheRunOnAllRanks) {
  const std::string arguments =
      "--steps 600 --save-every 200 --dropout 0.1 --validate-every 150 --export --threads 1 --prompt A ";
  ASSERT_EQ(tiny("whole", arguments + "--ranks 4").code, 0);
  Job job(tiny_arguments("run", arguments + "--elastic 2:4"), folder_ / "run", 210);
  job.send(SIGKILL, job.rank(1));
  wait_for_step(job, "run", 3);
  const Ending ending = job.end_by(SIGKILL, job.rank(0));
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, testing::AllOf(HasSubstr("Starting 3 ranks in place of 4 again (restart 1)."),
                                            HasSubstr("Starting 2 ranks in place of 3 again (restart 2)."),
                                            HasSubstr("goes on with 4 ranks instead of 2")));
  EXPECT_EQ(reproducible_steps_of(folder_ / "run"), reproducible_steps_of(folder_ / "whole"));
  EXPECT_EQ(weights_of("run"), weights_of("whole"));
}

// Without waiting for a checkpoint, and while ranks are starting, too, which have no step yet to take them after.
TEST_F(TrainElastic, TakesRanksBackWhenItIsAskedTo) {
  const std::string arguments = "--steps 2000 --threads 1 --export ";
  ASSERT_EQ(tiny("whole", arguments + "--ranks 2").code, 0);
  Job job(tiny_arguments("run", arguments + "--elastic 1:2"), folder_ / "run", 3);
  job.send(SIGKILL, job.rank(1));
  for (int asked = 0; asked < 20 && !job.ends_within(50ms); ++asked) job.send(SIGUSR2, job.launcher());
  const Ending ending = job.end_by(SIGUSR2, job.launcher());
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("goes on with 2 ranks instead of 1"));
  EXPECT_EQ(losses_of(folder_ / "run"), losses_of(folder_ / "whole"));
  EXPECT_EQ(weights_of("run"), weights_of("whole"));
}

// A launcher says how many there are, in each job anew.
TEST_F(TrainElastic, TakesTheRanksThatALauncherHas) {
  const std::string torchrun = FSDP_TORCHRUN;
  if (torchrun.empty()) FSDP_SKIP_TEST("this LibTorch comes without torchrun");
  const std::string arguments = "--schedule constant --threads 1 --micro-batches 2 ";
  ASSERT_EQ(tiny("whole", arguments + "--steps 9 --ranks 3").code, 0);
  for (const auto& [ranks, steps] : {std::pair("2", "3"), {"1", "6"}, {"3", "9"}}) {
    const Ending ending =
        run_command(torchrun + " --no-python --nproc-per-node " + ranks + " -- " FSDP_TRAIN_PROGRAM " " +
                    tiny_arguments("run", arguments + "--elastic 1:3 --steps " + steps));
    ASSERT_EQ(ending.code, 0) << ending.output;
  }
  EXPECT_EQ(losses_of(folder_ / "run"), losses_of(folder_ / "whole"));
  const Ending four = run_command(torchrun + " --no-python --nproc-per-node 4 -- " FSDP_TRAIN_PROGRAM " " +
                                  tiny_arguments("run", arguments + "--elastic 1:3 --steps 12"));
  EXPECT_NE(four.code, 0);
  EXPECT_THAT(four.output, HasSubstr("--elastic is 1:3, and the job has 4 ranks."));
}

TEST_F(TrainElastic, IsRefusedWhatContradictsIt) {
  const Ending both = tiny("run", "--elastic 2:4 --ranks 2");
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.output, HasSubstr("--elastic and --ranks are both given"));
  const Ending none = tiny("run", "--elastic 4:2");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.output, HasSubstr("the least and the most ranks, such as 2:4"));
}

}  // namespace
