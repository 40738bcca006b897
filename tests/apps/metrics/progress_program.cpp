// Shows the progress of a run in the terminal that it is started in, step by step, until it is told to end.
//   progress_program <folder>
// It ends the run when <folder>/stop is there, and itself when <folder>/leave is. The first step waits while
// <folder>/wait is there; <folder>/tell and <folder>/validate ask for a line each.
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "console/terminal.h"
#include "metrics/progress.h"

namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr int64_t kSteps = 1'000'000;

trainer::StepRecord record_of(int64_t step) {
  return {.step = step,
          .loss = 2.5,
          .grad_norm = 0.81,
          .lr = 3e-4,
          .tokens_per_second = 14213,
          .memory_bytes = 212'000'000,
          .seconds_left = 83,
          .step_seconds = 0.12,
          .mfu = 0.41};
}

}  // namespace

int main(int, char** arguments) {
  const fs::path folder = arguments[1];
  for (int line = 1; line <= 5; ++line) trainer::print("line " + std::to_string(line) + "\n");
  {
    trainer::Progress progress(kSteps, 0, trainer::standard_output());
    progress.begin(0);
    while (fs::exists(folder / "wait")) std::this_thread::sleep_for(20ms);
    for (int64_t step = 1; !fs::exists(folder / "stop"); ++step) {
      trainer::StepRecord record = record_of(step);
      if (fs::remove(folder / "validate")) record.validation_loss = 2.25;
      progress.show(record);
      if (fs::remove(folder / "tell")) progress.tell("checkpoint saved");
      std::this_thread::sleep_for(20ms);
    }
  }
  trainer::print("last line\n");
  for (auto waited = 0ms; waited < 60s && !fs::exists(folder / "leave"); waited += 20ms)
    std::this_thread::sleep_for(20ms);
}
