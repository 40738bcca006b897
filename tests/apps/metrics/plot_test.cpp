#include "metrics/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "apps/columns.h"

namespace trainer {
namespace {

using testing::HasSubstr;

std::vector<double> falling(int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(1.5 + 4.0 * std::exp(-i / (count / 5.0)));
  return values;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Plot, FitsItsWidthAndIsPlain) {
  for (int width : {30, 80, 200}) {
    const std::string text = plot(falling(1000), {.width = width, .height = 10});
    EXPECT_EQ(lines_of(text).size(), 11u);
    for (const std::string& line : lines_of(text)) EXPECT_LE(columns(line), width);
    EXPECT_FALSE(has_control_characters(text));
  }
}

TEST(Plot, LabelsBothAxes) {
  const std::vector<std::string> lines = lines_of(plot(falling(1000), {.width = 80, .height = 10, .first_step = 501}));
  EXPECT_THAT(lines[0], HasSubstr("5.5 ┤"));
  EXPECT_THAT(lines[9], HasSubstr("1.53"));
  for (const char* step : {"501", "1000", "1500"}) EXPECT_THAT(lines[10], HasSubstr(step));
}

TEST(Plot, CurveFallsFromTheUpperLeftToTheLowerRight) {
  const std::vector<std::string> lines = lines_of(plot({2.0, 1.0}, {.width = 30, .height = 5}));
  const std::string blank = "⠀";
  EXPECT_THAT(lines[0], testing::Not(testing::HasSubstr("┤" + blank)));
  EXPECT_TRUE(lines[0].ends_with(blank));
  EXPECT_THAT(lines[4], HasSubstr("┤" + blank));
  EXPECT_FALSE(lines[4].ends_with(blank));
}

TEST(Plot, OddCurves) {
  EXPECT_THAT(plot({}, {}), HasSubstr("no finite loss"));
  EXPECT_THAT(plot({std::nan("")}, {}), HasSubstr("no finite loss"));
  EXPECT_EQ(lines_of(plot({3.0}, {.height = 8})).size(), 9u);
  EXPECT_EQ(lines_of(plot({3.0, 3.0, 3.0}, {.height = 8})).size(), 9u);
  EXPECT_EQ(lines_of(plot({3.0, std::numeric_limits<double>::infinity(), 2.0}, {.height = 8})).size(), 9u);
}

TEST(Plot, IsAsciiWhereTheTerminalIs) {
  const std::string text = plot(falling(1000), {.width = 60, .height = 10, .utf8 = false});
  for (const unsigned char c : text) EXPECT_LT(c, 0x80);
  const std::vector<std::string> lines = lines_of(text);
  ASSERT_EQ(lines.size(), 11u);
  EXPECT_THAT(lines[0], HasSubstr("|*"));  // it falls from the left
  EXPECT_TRUE(lines[9].ends_with("*")) << text;
}

TEST(Plot, ColourOnlyWhereAskedFor) { EXPECT_TRUE(has_control_characters(plot({2.0, 1.0}, {.colour = true}))); }

TEST(Smoothed, KeepsLinesAndEnds) {
  std::vector<double> line;
  for (int i = 0; i < 500; ++i) line.push_back(i);
  const std::vector<double> calm = smoothed(line);
  ASSERT_EQ(calm.size(), line.size());
  for (size_t i = 0; i < line.size(); ++i) EXPECT_DOUBLE_EQ(calm[i], line[i]);
}

TEST(Averaged, KeepsShortListsAndTheMeanOfLongOnes) {
  EXPECT_THAT(averaged({1, 2, 3}, 3), testing::ElementsAre(1.0, 2.0, 3.0));
  EXPECT_THAT(averaged({1, 2, 3, 4, 5}, 3), testing::ElementsAre(1.5, 3.5, 5.0));
  EXPECT_THAT(averaged({}, 3), testing::IsEmpty());
  EXPECT_EQ(averaged(std::vector<double>(1'000'001, 2.5), 1000), std::vector<double>(1000, 2.5));
}

TEST(Plot, OfAMillionStepsHasTheirNumbers) { EXPECT_THAT(plot(falling(1'000'000), {}), HasSubstr("1000000")); }

}  // namespace
}  // namespace trainer
