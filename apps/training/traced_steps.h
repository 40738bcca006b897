// --trace-steps: what a window of a run's steps did, as RUN/traces/steps-A-B.json.
#pragma once

#include <fsdp/fsdp.h>

#include <cstdint>
#include <optional>
#include <string>

#include "options/options.h"

namespace trainer {

class TracedSteps {
 public:
  explicit TracedSteps(const RunOptions& options) : options_(options) {}

  // Before step number `step`: a run may go on from within the window.
  void begin_step(fsdp::ShardedModel& sharded, int64_t step);
  bool ends_after(int64_t step) const { return options_.trace_steps && step == options_.trace_steps->last; }
  // Ends the trace after step number `last`. Returns what a person should know; empty where nothing was traced. A file
  // that cannot be written is no error.
  std::string write(int64_t last);

 private:
  const RunOptions& options_;
  std::optional<fsdp::Trace> trace_;
  int64_t first_ = 0;  // step
};

}  // namespace trainer
