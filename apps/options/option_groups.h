// The common part of the option_rows_*.cpp: the parts of the table, and what values may be.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "options/option_table.h"

namespace trainer {

// Rows under one heading of the help, and in one section of the file.
struct Group {
  const char* title;
  const char* section;
  std::vector<Row> rows;
};

// In the order of the help.
std::vector<Group> data_and_model_groups();
std::vector<Group> rank_groups();
std::vector<Group> training_groups();
std::vector<Group> output_groups();

inline constexpr unsigned kTrainAndSample = kTrain | kSample, kTrainAndPrepare = kTrain | kPrepare;

// The upper bounds are far beyond use; they keep every product of sizes within 64 bits, but for that with the steps
// (resolve.cpp).
inline constexpr int64_t kMany = 1'000'000'000, kSize = 65'536, kContext = 131'072, kVocabulary = 1 << 24;

// Ranks of plans; a job has fewer (resolve.cpp).
inline constexpr int64_t kPlannedRanks = 1 << 20;

inline WholeNumbers from(int64_t lowest, int64_t highest) { return {lowest, highest}; }

inline constexpr double kInfinite = std::numeric_limits<double>::infinity();
inline constexpr Numbers kAboveZero{0, kInfinite, false, false, "a number above 0"};
inline constexpr Numbers kUpToMany{0, kMany, false, true, "a number above 0, and at most 1e9"};
inline constexpr Numbers kUpToBytes{0, 1e15, false, true, "bytes above 0, and at most 1e15"};
inline constexpr Numbers kNotNegative{0, kInfinite, true, false, "0 or a number above"};
inline constexpr Numbers kShare{0, 1, true, true, "a number from 0 to 1"};
inline constexpr Numbers kBelowOne{0, 1, true, false, "a number from 0 up to, and without, 1"};

template <size_t kCount>
Words words(const std::array<const char*, kCount>& all) {
  return {all.begin(), all.end()};
}

}  // namespace trainer
