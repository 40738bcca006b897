#include "plan/rank_turns.h"

#include <gmock/gmock.h>

#include <stdexcept>
#include <vector>

#include "fsdp/error.h"

namespace fsdp::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(RankTurns, RunOneAfterTheOtherUntilOneWaits) {
  RankTurns turns(3);
  std::vector<int> order;
  bool last_ran = false;
  turns.run([&](int rank) {
    order.push_back(rank);
    if (rank == 2) last_ran = true;
    EXPECT_TRUE(turns.wait(rank, "the last", [&] { return last_ran; }));
    order.push_back(10 + rank);
  });
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 12, 10, 11));
}

TEST(RankTurns, LetAWaitStallIfNoOtherCanRun) {
  RankTurns turns(2);
  std::vector<int> stalled;
  bool goes_on = false;
  turns.run([&](int rank) {
    if (rank == 0) {
      if (!turns.wait(
              0, "rank 1", [] { return false; }, /*may_stall=*/true))
        stalled.push_back(rank);
      goes_on = true;
    } else {
      EXPECT_TRUE(turns.wait(1, "rank 0", [&] { return goes_on; }));
    }
  });
  EXPECT_THAT(stalled, ElementsAre(0));
}

TEST(RankTurns, SayWhoWaitsForWhatWhereAllDo) {
  RankTurns turns(2);
  const auto run = [&] {
    turns.run([&](int rank) {
      if (rank == 1) turns.wait(1, "a gather", [] { return false; });
    });
  };
  EXPECT_THAT(run, ThrowsMessage<Error>(HasSubstr("rank 0 has ended, rank 1 waits for a gather")));
}

TEST(RankTurns, ThrowTheFirstError) {
  RankTurns turns(2);
  const auto run = [&] {
    turns.run([&](int rank) {
      if (rank == 1) throw std::runtime_error("one");
      turns.wait(0, "rank 1", [] { return false; });
    });
  };
  EXPECT_THAT(run, ThrowsMessage<std::runtime_error>(HasSubstr("one")));
}

}  // namespace
}  // namespace fsdp::plan
