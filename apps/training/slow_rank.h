// Finds a rank that all others wait for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace trainer {

struct SlowRank {
  int rank;
  double times;  // as long as the median of all ranks
};

// Ranks run in step, so a slow one has the same step time, but waits little. Compared is the time of a step without
// waits for other ranks.
class SlowRankFinder {
 public:
  explicit SlowRankFinder(int ranks) : busy_seconds_(static_cast<size_t>(ranks)) {}

  // `busy_seconds[r]` of rank r in the step that ended. Every kSteps steps it returns the slowest rank, when its median
  // over them is kTimes that of all ranks or more, and kSeconds longer, and was not the last time.
  std::optional<SlowRank> step(const std::vector<double>& busy_seconds);

  static constexpr size_t kSteps = 20;
  static constexpr double kTimes = 1.5;
  static constexpr double kSeconds = 0.05;  // below, what else a machine does looks like a slow rank

 private:
  std::vector<std::vector<double>> busy_seconds_;  // of each rank, since the last answer
  int told_ = -1;
};

}  // namespace trainer
