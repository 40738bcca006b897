// Finds out whether a run ended while its validation loss still fell.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace trainer {

struct Validation {
  int64_t step = 0;
  double loss = 0;
};

// The last fifth of the steps is compared with those before. The loss still falls if the last one is the lowest of all
// and at least a hundredth below the lowest up to four fifths of the steps, which is returned. None: it does not fall,
// or there is nothing to compare with. `validations` rise by step.
std::optional<Validation> lowest_before_fall(const std::vector<Validation>& validations);

}  // namespace trainer
