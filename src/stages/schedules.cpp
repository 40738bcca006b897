#include "stages/schedules.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace fsdp::stages {
namespace {

// The share of `idle` in `idle` and `busy`.
double share(double idle, double busy) { return idle / (idle + busy); }

// Times in these shares are in units of a stage's forward and backward of one micro-batch.

double idle_one_at_a_time(int ranks, int, int, const StageTimes&) { return share(ranks - 1, 1); }

// With several stages per rank, the next stage of a rank waits for its first micro-batch if there are fewer than ranks.
double idle_all_forward(int ranks, int stages_per_rank, int micro_batches, const StageTimes&) {
  const double waits = (stages_per_rank - 1.0) * std::max(0, ranks - micro_batches);
  return share(ranks - 1 + waits, static_cast<double>(stages_per_rank) * micro_batches);
}

double idle_interleaved(int ranks, int stages_per_rank, int micro_batches, const StageTimes&) {
  return share(ranks - 1, static_cast<double>(stages_per_rank) * micro_batches);
}

// (p - 1) (F + B - W), where B is the input gradient alone.
double idle_zero_bubble(int ranks, int stages_per_rank, int micro_batches, const StageTimes& times) {
  const double waits = std::max(0.0, times.forward + times.input_gradient - times.weight_gradient) / times.sum();
  return share((ranks - 1) * waits, static_cast<double>(stages_per_rank) * micro_batches);
}

constexpr std::array<NamedSchedule, 5> kSchedules = {{
    {"OneAtATime", one_at_a_time, idle_one_at_a_time},
    {"AllForwardAllBackward", all_forward_all_backward, idle_all_forward},
    {"OneForwardOneBackward", one_forward_one_backward, idle_interleaved},
    {"Interleaved", interleaved, idle_interleaved},
    {"ZeroBubble", zero_bubble, idle_zero_bubble},
}};

std::string names() {
  std::string names;
  for (const NamedSchedule& schedule : kSchedules) names.append(names.empty() ? "" : ", ").append(schedule.name);
  return names;
}

}  // namespace

std::span<const NamedSchedule> named_schedules() { return kSchedules; }

const NamedSchedule& named_schedule(std::string_view name) {
  const auto* found = std::ranges::find(kSchedules, name, &NamedSchedule::name);
  FSDP_CHECK(found != kSchedules.end(), "found the pipeline schedule {:?}, expected one of {}", name, names());
  return *found;
}

double idle_share_formula(std::string_view name, int ranks, int stages_per_rank, int micro_batches,
                          const StageTimes& times) {
  FSDP_CHECK(times.sum() > 0, "idle_share_formula: found passes that take no time, expected a sum above 0");
  return named_schedule(name).idle_share(ranks, stages_per_rank, micro_batches, times);
}

}  // namespace fsdp::stages
