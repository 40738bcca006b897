#include "training/traced_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "training/write_profile.h"

namespace trainer {

namespace {

// The first step makes the optimizer's state, and the second one follows a plan for the first time.
std::optional<StepRange> traced_steps(const RunOptions& options, int64_t steps_done) {
  if (options.trace_steps || options.profile.empty()) return options.trace_steps;
  constexpr int64_t kBefore = 2, kSteps = 5;
  const int64_t first = std::min(steps_done + kBefore + 1, options.steps);
  return StepRange{.first = first, .last = std::min(first + kSteps - 1, options.steps)};
}

std::string write_files(fsdp::Trace& trace, const RunOptions& options, StepRange steps) try {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(options.run) / "traces";
  fs::create_directories(folder);
  trace.write(folder / fmt::format("steps-{}-{}.json", steps.first, steps.last));
  return fmt::format("traced steps {} to {}", steps.first, steps.last);
} catch (const std::exception& error) {
  return fmt::format("the trace could not be written, training goes on: {}", error.what());
}

}  // namespace

TracedSteps::TracedSteps(const RunOptions& options, int64_t steps_done) : steps_(traced_steps(options, steps_done)) {}

void TracedSteps::begin_step(Training& training, int64_t step) {
  if (trace_ || !steps_ || step < steps_->first || step > steps_->last) return;
  trace_.emplace(training.model.trace(
      training.sharded, {.tensor_bytes = [&memory = training.tensor_memory] { return memory.take_peak(); }}));
  first_ = step;
}

void TracedSteps::end_step(int64_t step, Time begin, Time end, const StepClock& clock) {
  if (!trace_) return;
  const auto part = [&](const char* name, StepMoment from, StepMoment to) {
    trace_->add(name, clock.host_time(from), clock.host_time(to));
  };
  trace_->add(fmt::format("step {}", step), begin, end);
  part("forward and backward", StepMoment::Begin, StepMoment::PassesEnd);
  part("clipping", StepMoment::PassesEnd, StepMoment::Clipped);
  part("reading of losses", StepMoment::Clipped, StepMoment::Read);
  part("exchange of losses", StepMoment::Read, StepMoment::Decided);
  part("update", StepMoment::Decided, StepMoment::Updated);
}

std::string TracedSteps::write(Training& training, int64_t last, double peak_flops) {
  auto trace = std::exchange(trace_, std::nullopt);
  if (!trace) return "";
  const StepRange steps{.first = first_, .last = last};
  if (training.options.profile.empty()) return write_files(*trace, training.options, steps);
  return write_profile(training, *trace, steps, peak_flops);
}

}  // namespace trainer
