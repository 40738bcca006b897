// How far a planned run can be changed until it no longer fits into the memory of its devices. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "planning/plan_target.h"

namespace trainer {

// The fewest ranks, each with the micro-batch as given. Their number is a power of 2 times the ranks of a replica.
// Ranks on CPUs are on the hosts as given.
struct CheapestSetting {
  int64_t ranks = 1;
  std::string options;                                    // "--ranks 4 --activation-checkpoint all"
  std::optional<double> dollars_per_hour = std::nullopt;  // of all ranks; none: the machine has no price

  // "--ranks 4 --activation-checkpoint all, 8.00 dollars per hour"
  std::string text() const;
};

struct PlanLimits {
  // With all other options as given; none: not even 1 fits.
  std::optional<int64_t> largest_batch = std::nullopt;     // sequences of a micro-batch
  std::optional<int64_t> longest_sequence = std::nullopt;  // tokens
  std::optional<CheapestSetting> cheapest = std::nullopt;  // none: no number of ranks is enough
};

// `options` are resolved. None if the model's parameters alone are known. Throws fsdp::Error for a run that the engine
// cannot do.
std::optional<PlanLimits> plan_limits(const PlanTarget& target, const RunOptions& options);

// The object `limits` of fsdp-plan --json: largest_batch, longest_sequence, cheapest (null where there is none).
nlohmann::json limits_json(const PlanLimits& limits);

}  // namespace trainer
