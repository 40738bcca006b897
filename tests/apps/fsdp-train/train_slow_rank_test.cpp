// A rank that all others wait for is named, in the record and to who watches.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "apps/fsdp-train/train_job.h"
#include "apps/fsdp-train/train_program.h"

namespace {

using testing::HasSubstr;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kLongest{60};

// Nothing runs beside it (alone.cmake).
using TrainSlowRankAlone = TrainProgram;
TEST_F(TrainSlowRankAlone, NamesARankThatIsSlow) {
  const std::string run = folder_ / "run";
  const std::string told = "rank 1 is slow: its steps take ";
  Job job(tiny_arguments("run", "--ranks 2 --steps 1000000 --width 64 --context 64 --batch 8"), run, 5);
  const Seconds a_step{metrics_of(run).back()["step_seconds"].get<double>()};
  // It sleeps about twice in a step, and each time longer than a step takes.
  const auto awake = std::chrono::ceil<std::chrono::microseconds>(a_step / 2);
  const Seconds asleep = Seconds(0.06) + a_step;
  const auto begin = std::chrono::steady_clock::now();
  while (read_bytes(run + "/metrics.jsonl").find(told) == std::string::npos && !job.ends_within(awake) &&
         std::chrono::steady_clock::now() - begin < kLongest) {
    job.send(SIGSTOP, job.rank(1));
    std::this_thread::sleep_for(asleep);
    job.send(SIGCONT, job.rank(1));
  }
  const Ending ending = job.end_by(SIGTERM, job.launcher());
  EXPECT_EQ(ending.code, 75);
  EXPECT_THAT(read_bytes(run + "/metrics.jsonl"), HasSubstr("\"event\":\"" + told));
  EXPECT_THAT(ending.output, HasSubstr(": " + told));
}

}  // namespace
