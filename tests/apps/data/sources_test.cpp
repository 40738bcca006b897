#include "data/sources.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>

#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace data {
namespace {

using fsdp::testing::message_of;
using testing::HasSubstr;

std::vector<std::pair<std::string, double>> pairs_of(const std::string& text) {
  std::vector<std::pair<std::string, double>> pairs;
  for (const Source& source : sources_in(text)) pairs.emplace_back(source.path, source.weight);
  return pairs;
}

using Pairs = std::vector<std::pair<std::string, double>>;

TEST(Sources, HaveTheirWeights) {
  EXPECT_EQ(pairs_of("bible.txt"), (Pairs{{"bible.txt", 1}}));
  EXPECT_EQ(pairs_of("bible.txt:3,code/:1"), (Pairs{{"bible.txt", 3}, {"code/", 1}}));
  EXPECT_EQ(pairs_of("a:b:0.5,c:2e1,d:1"), (Pairs{{"a:b", 0.5}, {"c", 20}, {"d", 1}}));
}

TEST(Sources, AreOnePathWhereItIsThereOrHasNoList) {
  const TemporaryFolder folder;
  const std::string odd = folder.write("a:1,b:2", "text");
  EXPECT_EQ(pairs_of(odd), (Pairs{{odd, 1}}));
  EXPECT_EQ(pairs_of("one,two"), (Pairs{{"one,two", 1}}));
  EXPECT_EQ(pairs_of("C:data"), (Pairs{{"C:data", 1}}));
}

TEST(Sources, KeepTheirWeightsWithOtherPaths) {
  const auto there = [](const std::string& path) { return "/there/" + path; };
  EXPECT_EQ(with_source_paths("a.txt:3,b/:1e3", there), "/there/a.txt:3,/there/b/:1e3");
  EXPECT_EQ(with_source_paths("one,two", there), "/there/one,two");
  EXPECT_EQ(with_source_paths("a:1,b", there), "/there/a:1,/there/b");  // which is an error where it is opened
}

TEST(Sources, WithoutAGoodWeightAreErrors) {
  const auto refusal = [](const std::string& text) { return message_of<fsdp::Error>([&] { sources_in(text); }); };
  EXPECT_THAT(refusal("a:1,b"), HasSubstr("'b' has no weight. Each of several paths needs one: a:1,b:1"));
  const TemporaryFolder folder;
  const std::string one = folder.write("one.txt", "text");
  EXPECT_THAT(refusal(one + ",two.txt"), HasSubstr("Each of several paths needs one: " + one + ":1,two.txt:1"));
  for (const char* weight : {"0", "-1", "nan", "inf", "many", ""}) {
    EXPECT_THAT(refusal(std::string("a:1,b:") + weight),
                HasSubstr("the weight of 'b' is '" + std::string(weight) + "'"));
  }
}

}  // namespace
}  // namespace data
