#include "planning/published_times.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace trainer {
namespace {

std::string text_of(const std::vector<PublishedTime>& times) {
  std::string text;
  for (const PublishedTime& time : times)
    text += fmt::format("{:<28}{:<44}{:9.3f}{:9.3f}{:+7.1f} %\n", time.source, time.setting, time.measured,
                        time.predicted, 100 * time.error());
  return text;
}

TEST(PublishedTimes, OfVTrainArePredicted) {
  const std::vector<PublishedTime> times = vtrain_times();
  const ErrorSummary fitted = summary_of(times, true), predicted = summary_of(times, false);
  EXPECT_EQ(fitted.rows, 60u);
  EXPECT_EQ(predicted.rows, 660u);
  EXPECT_LE(predicted.mean, 0.06);
  EXPECT_LE(fitted.mean, 0.06);
}

TEST(PublishedTimes, OfShardedTrainingArePredicted) {
  const std::vector<PublishedTime> times = published_times();
  const ErrorSummary predicted = summary_of(times, false);
  EXPECT_EQ(predicted.rows, 35u);
  EXPECT_LE(predicted.median, 0.05) << text_of(times);
  EXPECT_LE(predicted.worst, 0.15) << text_of(times);
}

TEST(PublishedTimes, OnCpusArePredicted) {
  const std::vector<PublishedTime> times = cpu_times();
  const ErrorSummary predicted = summary_of(times, false);
  EXPECT_EQ(predicted.rows, 11u);
  const auto within =
      std::ranges::count_if(times, [](const PublishedTime& time) { return std::abs(time.error()) < 0.1; });
  EXPECT_GE(within, 10) << text_of(times);
  EXPECT_LE(predicted.worst, 0.15) << text_of(times);
}

// What one engine takes in place of another is part of each prediction.
TEST(PublishedTimes, YaFsdpIsFasterThanFsdpWhereItWasMeasured) {
  const std::vector<PublishedTime> times = published_times();
  for (size_t i = 0; i + 1 < times.size() && times[i].source.ends_with("YaFSDP"); i += 2)
    EXPECT_LT(times[i].predicted, times[i + 1].predicted) << times[i].setting;
}

}  // namespace
}  // namespace trainer
