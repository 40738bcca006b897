#include "world/axes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fsdp/error.h"
#include "support/message_of.h"

namespace fsdp::world {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

std::string problem_of_axes(const Axes& axes, int ranks) {
  return message_of<Error>([&] { check_axes(axes, ranks); });
}

std::vector<std::string> fitting_texts(const Axes& axes, int ranks) {
  std::vector<std::string> texts;
  for (const Axes& fitting : fitting_axes(axes, ranks)) texts.push_back(text_of(fitting));
  return texts;
}

TEST(Axes, AreWrittenAsNamesAndSizes) {
  EXPECT_EQ(text_of({{"data", 2}, {"tensor", 4}}), "data 2 x tensor 4");
  EXPECT_EQ(text_of({{"data", 2}}), "data 2");
  EXPECT_EQ(names_of({{"data", 2}, {"tensor", 4}}), "data, tensor");
}

TEST(Axes, FitIfTheirProductIsTheNumberOfRanks) {
  check_axes({{"data", 1}}, 1);
  check_axes({{"data", 2}, {"stage", 3}, {"tensor", 4}}, 24);
  check_axes({{"one", 1}, {"data", 8}, {"another", 1}}, 8);
}

TEST(Axes, NeedNamesThatDiffer) {
  EXPECT_THAT(problem_of_axes({}, 8), HasSubstr("found no axes, expected at least one, such as {\"data\", 8}"));
  EXPECT_THAT(problem_of_axes({{"data", 2}, {"", 4}}, 8), HasSubstr("axis 1 of 2 has no name, expected one such as"));
  EXPECT_THAT(problem_of_axes({{"data", 2}, {"tensor", 2}, {"data", 2}}, 8),
              HasSubstr("two axes with the name \"data\" in data 2 x tensor 2 x data 2, expected different names"));
}

TEST(Axes, NeedPositiveSizes) {
  EXPECT_THAT(problem_of_axes({{"data", 8}, {"tensor", 0}}, 8), HasSubstr("size 0 of axis \"tensor\", expected 1"));
  EXPECT_THAT(problem_of_axes({{"data", -2}, {"tensor", -4}}, 8), HasSubstr("size -2 of axis \"data\""));
}

TEST(Axes, OfAnotherProductAreDrawnBesideSizesThatFit) {
  EXPECT_EQ(problem_of_axes({{"data", 3}, {"tensor", 2}}, 8),
            "[fsdp] Mesh: found data 3 x tensor 2 = 6 ranks, expected 8, the size of the world. The grid as asked, in "
            "which 2 ranks have no place:\n"
            "data  tensor 0  1\n"
            "   0         0  1\n"
            "   1         2  3\n"
            "   2         4  5\n"
            "Use data 4 x tensor 2.");
  EXPECT_EQ(problem_of_axes({{"data", 2}, {"tensor", 3}}, 4),
            "[fsdp] Mesh: found data 2 x tensor 3 = 6 ranks, expected 4, the size of the world. The grid as asked, in "
            "which 2 places have no rank:\n"
            "data  tensor 0  1  2\n"
            "   0         0  1  2\n"
            "   1         3  -  -\n"
            "Use data 2 x tensor 2.");
}

TEST(Axes, OfAnotherProductHaveOthersThatFit) {
  EXPECT_THAT(fitting_texts({{"data", 4}, {"tensor", 4}}, 8), ElementsAre("data 2 x tensor 4", "data 4 x tensor 2"));
  EXPECT_THAT(fitting_texts({{"data", 4}}, 8), ElementsAre("data 8"));
  EXPECT_THAT(fitting_texts({{"data", 3}, {"stage", 2}, {"tensor", 2}}, 8), ElementsAre("data 2 x stage 2 x tensor 2"));
  // No change of one size is enough.
  EXPECT_THAT(fitting_texts({{"data", 3}, {"tensor", 3}}, 8), ElementsAre("data 8 x tensor 1"));
  EXPECT_THAT(fitting_texts({{"data", 5}, {"stage", 3}, {"tensor", 6}}, 8), ElementsAre("data 4 x stage 1 x tensor 2"));
}

TEST(Axes, OfFarTooManyRanksAreDrawnInPart) {
  const std::string problem = problem_of_axes({{"data", 100000}, {"tensor", 1000}}, 8);
  EXPECT_THAT(problem, AllOf(HasSubstr("   0         0  1  2  3  4  5  6  7  ...\n"), HasSubstr("  7         -"),
                             HasSubstr("\n...\nUse "), Not(HasSubstr("  8  "))));
  EXPECT_THAT(problem_of_axes({{"a", 1 << 30}, {"b", 1 << 30}, {"c", 1 << 30}}, 8), HasSubstr("64 bits"));
}

TEST(Axes, AreFoundByName) {
  const Axes axes{{"data", 2}, {"tensor", 4}};
  EXPECT_EQ(find_axis(axes, "tensor", "Mesh::size"), 1u);
  EXPECT_THAT(message_of<Error>([&] { find_axis(axes, "tensr", "Mesh::size"); }),
              HasSubstr("Mesh::size: found the axis \"tensr\", expected one of: data, tensor."));
}

}  // namespace
}  // namespace fsdp::world
