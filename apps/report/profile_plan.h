// The plan of a run beside what a profile measured.
#pragma once

#include <string>
#include <vector>

#include "report/profile.h"
#include "report/profile_memory.h"
#include "report/step_shares.h"

namespace trainer {

struct ComparedNumber {
  std::string name;
  double planned = 0, measured = 0;  // bytes, or seconds
  std::string reason = {};           // for a difference; text
};

struct Comparison {
  std::vector<ComparedNumber> memory;  // by part, without the peak itself
  std::vector<ComparedNumber> time;    // by part of a step; empty: the plan has no time
  // The parts that differ most, in proportion to the planned peak and the planned step, and why. Text.
  std::string memory_sentences, time_sentences;
};

// `profile` has a plan.
Comparison compare_with_plan(const Profile& profile, const MemoryPeak& peak, const StepShares& shares);

}  // namespace trainer
