// Where the time of a run's steps went.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "metrics/step_record.h"

namespace trainer {

// Keeps what steps took, of a long run every second, fourth, ... of them, so that its memory has a bound.
class StepTimes {
 public:
  // Steps whose parts are not all known count for nothing.
  void add(const StepRecord& record);

  // Two lines at most, from the medians over the steps: the shares of a step's parts, and the MFU with the
  // floating-point operations per second that count as 1. Empty where nothing is known.
  std::string text(double peak_flops) const;

  static constexpr size_t kMost = 4096;  // steps that are kept

 private:
  struct Step {
    double data, forward_backward, optimizer, other, wait, mfu;  // seconds; mfu 0: not known
  };

  double median(double Step::*part) const;

  std::vector<Step> steps_;
  size_t stride_ = 1, passed_over_ = 0;  // one of `stride_` steps is kept
};

}  // namespace trainer
