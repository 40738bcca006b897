// Units by the names of parameters.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "fsdp/error.h"
#include "plan/automatic_units.h"

namespace fsdp::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The names of the units' members.
std::vector<std::string> members_of(const std::vector<NamedShape>& parameters) {
  std::vector<std::string> members;
  for (const AutomaticUnit& unit : automatic_units(tree_of_names(parameters), kLargestShare, false)) {
    std::string text;
    for (const std::string& member : unit.members) text += (text.empty() ? "" : " ") + member;
    members.push_back(unit.members.empty() ? unit.name : text);
  }
  return members;
}

TEST(NamedModules, NumberedModulesOfTheSameNamesAreBlocks) {
  EXPECT_THAT(
      members_of(
          {{"embed.weight", {10, 4}}, {"h.0.fc.weight", {4, 4}}, {"h.1.fc.weight", {4, 4}}, {"norm.weight", {4}}}),
      ElementsAre("root", "h.0", "h.1"));
}

TEST(NamedModules, LinearLayersAndNormsInTurnAreNoBlocks) {
  EXPECT_THAT(members_of({{"0.weight", {8, 4}}, {"1.weight", {8}}, {"2.weight", {4, 8}}}), ElementsAre("root"));
  EXPECT_THAT(members_of({{"0.weight", {8, 4}}, {"1.weight", {4, 8}}}), ElementsAre("0", "1"));
}

// Between them lie modules without parameters, of which the names do not tell.
TEST(NamedModules, GapsInTheNumbersMakeNoBlocks) {
  EXPECT_THAT(members_of({{"0.weight", {8, 4}}, {"2.weight", {4, 8}}}), ElementsAre("root"));
}

TEST(NamedModules, ModulesOfModulesAreBlocksThoughTheyDiffer) {
  EXPECT_THAT(members_of({{"layers.0.mlp.weight", {4, 4}},
                          {"layers.1.experts.0.weight", {4, 4}},
                          {"layers.1.experts.1.weight", {4, 4}}}),
              ElementsAre("layers.0", "layers.1"));
}

// 40 % and more of the model.
TEST(NamedModules, ALargeRestIsCutByModules) {
  EXPECT_THAT(members_of({{"first.weight", {100, 100}}, {"second.weight", {100, 100}}, {"third.weight", {100, 100}}}),
              ElementsAre("first", "second", "third"));
}

TEST(NamedModules, EmptyParametersAndScalarsCount) {
  const ModuleNode root = tree_of_names({{"a", {}}, {"b", {0, 5}}, {"c.d", {2, 3}}});
  EXPECT_EQ(root.numel, 7);
  EXPECT_EQ(root.own.size(), 2u);
  EXPECT_THAT(tree_of_names({}).children, IsEmpty());
}

TEST(NamedModules, RefusesWhatDoesNotFit) {
  const auto message = [](const std::vector<NamedShape>& parameters) -> std::string {
    try {
      tree_of_names(parameters);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({{"a", {int64_t{1} << 40, int64_t{1} << 40}}}), HasSubstr("does not fit in 64 bits"));
  EXPECT_THAT(message({{"a", {int64_t{1} << 62}}, {"b", {int64_t{1} << 62}}}), HasSubstr("does not fit in 64 bits"));
  std::string deep = "a";
  for (int i = 0; i < 200'000; ++i) deep += ".a";
  EXPECT_THAT(message({{deep, {1}}}), HasSubstr("found a parameter in 200000 modules, expected at most 100"));
}

}  // namespace
}  // namespace fsdp::plan
