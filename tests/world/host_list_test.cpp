#include "world/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fsdp/error.h"

namespace fsdp::world {
namespace {

using ::testing::ElementsAre;

TEST(ExpandHostList, ExpandsRangesAndKeepsTheirWidth) {
  EXPECT_THAT(expand_host_list("login"), ElementsAre("login"));
  EXPECT_THAT(expand_host_list("a,b"), ElementsAre("a", "b"));
  EXPECT_THAT(expand_host_list("gpu[001-003,7],login"), ElementsAre("gpu001", "gpu002", "gpu003", "gpu7", "login"));
  EXPECT_THAT(expand_host_list("n[8-11]"), ElementsAre("n8", "n9", "n10", "n11"));
  EXPECT_THAT(expand_host_list("r[1-2]n[1,3].site"), ElementsAre("r1n1.site", "r1n3.site", "r2n1.site", "r2n3.site"));
}

TEST(ExpandHostList, RefusesWhatCannotBeRead) {
  for (const char* list : {"", "a,", "n[1-2", "n[2-1]", "n[]", "n[1-x]", "n]1", "n[1-99999999999]", "n[[1]]"})
    EXPECT_THROW(expand_host_list(list), Error) << list;
}

TEST(ExpandCounts, Repeats) {
  EXPECT_THAT(expand_counts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(expand_counts("4"), ElementsAre(4));
  for (const char* list : {"", "2(x", "2(3)", "x", "2(x3)y", "-1"}) EXPECT_THROW(expand_counts(list), Error) << list;
}

}  // namespace
}  // namespace fsdp::world
