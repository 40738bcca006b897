// How few and how many ranks a job may have: "2:4".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trainer {

inline constexpr int64_t kMostRanksOfJob = 1024;

struct RankRange {
  int64_t least = 1, most = 1;
  bool operator==(const RankRange&) const = default;
};

// None for a text that is no such range: two whole numbers from 1 to kMostRanksOfJob, the second no less than the
// first.
std::optional<RankRange> rank_range_in(const std::string& text);

}  // namespace trainer
