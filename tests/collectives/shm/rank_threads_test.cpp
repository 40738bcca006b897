// Threads that are ranks of one process, each with names of its own and with threads that work for it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/rank_names.h"
#include "base/rank_thread.h"
#include "collectives/shm/thread_ranks.h"

namespace fsdp::collectives::shm {
namespace {

TEST(RankThreads, HaveTheirOwnNamesWhileAllChangeThem) {
  constexpr int kRanks = 4, kRounds = 200;
  ThreadRanks threads(kRanks);
  threads.run([&](Ranks& ranks) {
    const RankScope scope;
    const int rank = ranks.rank();
    set_this_rank(rank, kRanks);
    const std::string expected = fmt::format("[fsdp rank {}/{}] ", rank, kRanks);
    std::thread own(of_this_rank([&] {
      for (int round = 0; round < kRounds; ++round) {
        EXPECT_EQ(message_prefix(), expected);
        EXPECT_THAT(text_of_rank(1), ::testing::AnyOf("rank 1", fmt::format("rank 1 (seen by {})", rank)));
      }
    }));
    for (int round = 0; round < kRounds; ++round) {
      set_places({0, 1}, {"", fmt::format("seen by {}", rank)});
      EXPECT_EQ(message_prefix("unit"), fmt::format("[fsdp rank {}/{} unit=unit] ", rank, kRanks));
    }
    own.join();
  });
}

TEST(RankThreads, NameAMissingRankByTheirOwnPlaces) {
  ThreadRanks threads(3, std::chrono::milliseconds(200));
  threads.run([&](Ranks& ranks) {
    const RankScope scope;
    set_places({0, 1, 2}, std::vector<std::string>(3, fmt::format("seen by {}", ranks.rank())));
    if (ranks.rank() == 0) return std::this_thread::sleep_for(std::chrono::milliseconds(600));
    const std::vector<int> missing{0};
    try {
      ranks.wait(missing, "waits", [](int) { return false; });
      ADD_FAILURE() << "rank 0 was not missed";
    } catch (const WaitFailure& failure) {
      EXPECT_THAT(failure.what(), ::testing::HasSubstr(fmt::format("rank 0 (seen by {})", ranks.rank())));
    }
  });
}

}  // namespace
}  // namespace fsdp::collectives::shm
