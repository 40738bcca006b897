#include "run/refuse_together.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "support/run_ranks.h"

namespace trainer {
namespace {

using fsdp::testing::run_ranks;
using fsdp::testing::run_ranks_to_end;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// From rank `first` on all have problems.
void expect_said_by(int first) {
  const auto result = run_ranks_to_end(3, [first](fsdp::World& world) {
    std::vector<std::string> problems;
    if (world.rank() >= first) problems.push_back(fmt::format("found by rank {}", world.rank()));
    EXPECT_TRUE(refuse_together(world, problems));
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("1 problem\n"), HasSubstr(fmt::format("found by rank {}", first)),
                                   Not(HasSubstr(fmt::format("found by rank {}", first + 1)))));
}

TEST(RefuseTogether, IsSaidByRank0) { expect_said_by(0); }

TEST(RefuseTogether, IsSaidByTheFirstRankThatHasProblems) { expect_said_by(1); }

TEST(RefuseTogether, NothingIsRefusedWithoutProblems) {
  run_ranks(2, [](fsdp::World& world) { EXPECT_FALSE(refuse_together(world, {})); });
}

}  // namespace
}  // namespace trainer
