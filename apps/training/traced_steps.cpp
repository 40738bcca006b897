#include "training/traced_steps.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

namespace trainer {

void TracedSteps::begin_step(fsdp::ShardedModel& sharded, int64_t step) {
  const auto& steps = options_.trace_steps;
  if (trace_ || !steps || step < steps->first || step > steps->last) return;
  trace_.emplace(sharded.trace());
  first_ = step;
}

std::string TracedSteps::write(int64_t last) try {
  namespace fs = std::filesystem;
  auto trace = std::exchange(trace_, std::nullopt);
  if (!trace) return "";
  const fs::path folder = fs::path(options_.run) / "traces";
  fs::create_directories(folder);
  trace->write(folder / fmt::format("steps-{}-{}.json", first_, last));
  return fmt::format("traced steps {} to {}", first_, last);
} catch (const std::exception& error) {
  return fmt::format("the trace could not be written, training goes on: {}", error.what());
}

}  // namespace trainer
