// The peak that MFU is a share of: measured again when steps are faster.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "apps/fsdp-train/train_job.h"
#include "apps/fsdp-train/train_program.h"

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// Rank 1 stands still for most of the first measurement, as on a machine that is busy then. Each width is measured for
// 50 ms, and all ranks wait for it.
// Nothing runs beside it (alone.cmake).
using TrainPeakAlone = TrainProgram;
TEST_F(TrainPeakAlone, MeasuresThePeakAgainWhenAStepIsFaster) {
  const std::string run = folder_ / "run";
  const std::string told = "MFU: a step reached ";
  Job job(tiny_arguments("run", "--ranks 2 --steps 1000000 --width 128 --context 64 --batch 8"), run, 0);
  while (!job.has_ranks(2) && !job.ends_within(1ms)) {
  }
  const auto has_record = [&] { return !read_bytes(run + "/metrics.jsonl").empty(); };
  while (!has_record() && !job.ends_within(25ms)) {
    job.send(SIGSTOP, job.rank(1));
    std::this_thread::sleep_for(400ms);
    job.send(SIGCONT, job.rank(1));
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto is_told = [&] { return read_bytes(run + "/metrics.jsonl").find(told) != std::string::npos; };
  while (!is_told() && !job.ends_within(10ms) && std::chrono::steady_clock::now() - begin < 60s) {
  }
  const Ending ending = job.end_by(SIGTERM, job.launcher());
  EXPECT_EQ(ending.code, 75);
  EXPECT_THAT(read_bytes(run + "/metrics.jsonl"), HasSubstr("\"event\":\"" + told));
  EXPECT_THAT(ending.output, HasSubstr(": " + told));
  for (const nlohmann::json& step : metrics_of(run)) {
    if (step.contains("mfu")) EXPECT_LE(step["mfu"].get<double>(), 1.0) << step;
  }
}

}  // namespace
