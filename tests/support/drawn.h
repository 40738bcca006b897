// The cases of a parametrised suite that a run tries: some always, one more by the number of the commit.
//
// A run of the quick tier tries the cases of `always` and one of `others`. FSDP_TEST_SEED, a number, says which one;
// scripts/test sets it to the number of the commit. FSDP_TEST_CASES=eighth adds an eighth of the others, so that eight
// commits try all of them, and FSDP_TEST_CASES=all adds all.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::testing {

enum class Tier { Quick, Eighth, All };

inline Tier tier() {
  const char* given = std::getenv("FSDP_TEST_CASES");
  const std::string name = given ? given : "quick";
  if (name == "quick") return Tier::Quick;
  if (name == "eighth") return Tier::Eighth;
  if (name == "all") return Tier::All;
  throw std::invalid_argument("FSDP_TEST_CASES is '" + name + "', expected quick, eighth or all");
}

inline uint64_t seed() {
  const char* given = std::getenv("FSDP_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 0;
}

// Whether the run tries number `index` of the `count` cases that are drawn. One that is alone comes every second time.
inline bool is_drawn(size_t index, size_t count) {
  return tier() == Tier::All || index == seed() % std::max<size_t>(count, 2) ||
         (tier() == Tier::Eighth && index % 8 == seed() % 8);
}

template <typename Case>
std::vector<Case> drawn_cases(std::vector<Case> always, const std::vector<Case>& others) {
  for (size_t i = 0; i < others.size(); ++i) {
    if (is_drawn(i, others.size())) always.push_back(others[i]);
  }
  return always;
}

// For INSTANTIATE_TEST_SUITE_P, in the place of ::testing::Values: drawn<Job>({Job{2, "shm"}}, {Job{3, "shm"}, ...}).
template <typename Case>
auto drawn(std::vector<Case> always, const std::vector<Case>& others) {
  return ::testing::ValuesIn(drawn_cases(std::move(always), others));
}

}  // namespace fsdp::testing
