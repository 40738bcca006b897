// --trace-steps and --profile: the record of a window of a run's steps, as RUN/traces/steps-A-B.json, or as a profile.
#pragma once

#include <fsdp/fsdp.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "training/step_clock.h"
#include "training/training.h"

namespace trainer {

class TracedSteps {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // After `steps_done` steps.
  TracedSteps(const RunOptions& options, int64_t steps_done);

  // Before step number `step`: a run may go on from within the window.
  void begin_step(Training& training, int64_t step);
  // The step has ended; `clock` has its parts.
  void end_step(int64_t step, Time begin, Time end, const StepClock& clock);
  bool ends_after(int64_t step) const { return steps_ && step == steps_->last; }
  // Ends the trace after step number `last`. Returns what a person should know; empty where nothing was traced. A file
  // that cannot be written is no error. `peak_flops`: of all ranks, for the plan. A collective with --profile.
  std::string write(Training& training, int64_t last, double peak_flops);

 private:
  std::optional<StepRange> steps_;  // none: nothing is traced
  std::optional<fsdp::Trace> trace_;
  int64_t first_ = 0;  // step
};

}  // namespace trainer
