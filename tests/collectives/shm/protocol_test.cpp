// The protocol by which ranks use each other's memory, with threads as ranks and random delays. Built with the thread
// sanitizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "collectives/shm/exchange.h"
#include "collectives/shm/thread_ranks.h"
#include "collectives/shm/unit_epochs.h"
#include "collectives/shm/unit_reduction.h"
#include "support/message_of.h"

namespace fsdp::collectives::shm {
namespace {

using ::fsdp::testing::message_of;
using layout::GradientLayout;
using layout::UnitLayout;
using ::testing::HasSubstr;

// One unit that all ranks share: the memory, as it would be mapped by each.
struct SharedUnit {
  SharedUnit(ThreadRanks& threads, UnitLayout unit_layout)
      : layout(std::move(unit_layout)), gradient_layout(layout, std::vector<uint8_t>(layout.parameters(), 1)) {
    full.resize(layout.ranks() / layout.shards(), std::vector<float>(layout.full_numel()));
    for (int rank = 0; rank < threads.size(); ++rank) {
      OwnMemory& memory = threads.memory(rank);
      auto* control = new (memory.at(memory.allocate(sizeof(UnitControl) + layout.parameters()))) UnitControl;
      members.push_back({control, &memory});
      gradients.push_back(memory.allocate(layout.full_numel() * sizeof(float)));
      sums.push_back(memory.allocate(layout.shard_numel() * sizeof(float)));
    }
  }

  UnitLayout layout;
  GradientLayout gradient_layout;
  std::vector<std::vector<float>> full;  // of each shard group
  std::vector<UnitMember> members;       // by rank
  std::vector<uint64_t> gradients;       // the same
  std::vector<uint64_t> sums;            // the same
};

// A rank's own part in it.
class OwnUnit {
 public:
  OwnUnit(Ranks& ranks, SharedUnit& unit)
      : ranks_(ranks),
        unit_(unit),
        epochs_(ranks, unit.members, ranks_where(unit.layout, &UnitLayout::group_index), "unit"),
        reduction_({ranks, unit.members, ElementType::Float32, "unit"},
                   ranks_where(unit.layout, &UnitLayout::shard_index)),
        sum_(reinterpret_cast<float*>(unit.members[ranks.rank()].memory->at(unit.sums[ranks.rank()]))),
        held_(unit.layout.parameters()) {}

  void begin_write() { epochs_.begin_write(); }
  bool try_begin_write() { return epochs_.try_begin_write(); }
  void write_and_publish(float value) {
    const layout::Range own = unit_.layout.shard_of(rank());
    std::fill(full().begin() + own.begin, full().begin() + own.end, value);
    epochs_.publish();
  }
  void expect_full(float value) {
    epochs_.wait_published();
    EXPECT_EQ(std::count(full().begin(), full().end(), value), unit_.layout.full_numel());
  }
  // Each shard as soon as its owner has published it.
  void expect_copy(float value) {
    std::vector<float> copy(full().size());
    const auto copy_shard = [&](int rank) {
      const layout::Range shard = unit_.layout.shard_of(rank);
      std::copy(full().begin() + shard.begin, full().begin() + shard.end, copy.begin() + shard.begin);
    };
    copy_shard(rank());
    epochs_.wait_published(copy_shard);
    EXPECT_EQ(std::count(copy.begin(), copy.end(), value), unit_.layout.full_numel());
  }

  // Rank r's gradient of element i is r + i + `number`.
  void begin_reduction(int number) {
    auto* gradients = reinterpret_cast<float*>(unit_.members[rank()].memory->at(unit_.gradients[rank()]));
    std::iota(gradients, gradients + unit_.layout.full_numel(), static_cast<float>(rank() + number));
    std::fill(held_.begin(), held_.end(), 0);
    reduction_.begin(unit_.gradient_layout, unit_.gradients[rank()], std::vector<uint8_t>(held_.size(), 1),
                     {sum_, &held_, unit_.sums[rank()]});
  }
  bool wait_begun() { return reduction_.wait_begun(); }
  // Behind the sums of all units, as ranks end reductions in orders of their own.
  void overwrite_sum() {
    reduction_.wait_copied();
    std::fill_n(sum_, unit_.layout.shard_numel(), -1.0f);
  }
  void expect_sum(int number) {
    reduction_.wait();
    const int ranks = ranks_.size();
    const auto begin = static_cast<int>(unit_.layout.shard_of(rank()).begin);
    for (size_t i = 0; i < unit_.layout.parameters(); ++i) {
      const layout::Range piece = unit_.gradient_layout.piece_of(i, rank());
      for (auto at = static_cast<int>(piece.begin); at < piece.end; ++at) {
        const int expected = ranks * (begin + at + number) + ranks * (ranks - 1) / 2;
        ASSERT_EQ(sum_[at], static_cast<float>(expected)) << "parameter " << i << ", element " << at;
      }
    }
  }

 private:
  int rank() const { return ranks_.rank(); }
  std::vector<float>& full() { return unit_.full[unit_.layout.group_index(rank())]; }
  // The peers that have this rank's index.
  std::vector<int> ranks_where(const UnitLayout& layout, int (UnitLayout::*index)(int) const) const {
    std::vector<int> found;
    for (int peer : ranks_.peers()) {
      if ((layout.*index)(peer) == (layout.*index)(rank())) found.push_back(peer);
    }
    return found;
  }

  Ranks& ranks_;
  SharedUnit& unit_;
  UnitEpochs epochs_;
  SharedMemoryReduction reduction_;
  float* sum_;
  std::vector<uint8_t> held_;
};

class Protocol : public ::testing::TestWithParam<int> {};  // the ranks of a shard group

// Reductions begin and end in another order on every rank, and each rank reads as often as it likes.
TEST_P(Protocol, NoRankReadsWhatAnotherWrites) {
  constexpr int kRanks = 8, kSteps = 30;
  ThreadRanks threads(kRanks);
  std::vector<SharedUnit> shared;
  for (const std::vector<int64_t>& numels : {std::vector<int64_t>{100, 70}, {1}, {3000}})
    shared.emplace_back(threads, UnitLayout(numels, kRanks, GetParam()));
  threads.run([&](Ranks& ranks) {
    std::mt19937 random(ranks.rank());
    std::vector<std::unique_ptr<OwnUnit>> units;
    for (SharedUnit& unit : shared) units.push_back(std::make_unique<OwnUnit>(ranks, unit));
    for (int step = 0; step < kSteps; ++step) {
      for (auto& unit : units) {
        if (step > 0) unit->begin_write();
        delay(random);
        unit->write_and_publish(static_cast<float>(step));
      }
      const auto read_some = [&] {
        for (auto reads = random() % 4; reads > 0; --reads) {
          OwnUnit& unit = *units[random() % units.size()];
          random() % 2 == 0 ? unit.expect_full(static_cast<float>(step)) : unit.expect_copy(static_cast<float>(step));
          delay(random);
        }
      };
      std::vector<int> order(units.size());
      std::iota(order.begin(), order.end(), 0);
      read_some();
      std::shuffle(order.begin(), order.end(), random);
      for (int unit : order) delay(random), units[unit]->begin_reduction(step);
      std::shuffle(order.begin(), order.end(), random);
      for (int unit : order) delay(random), units[unit]->expect_sum(step);
      for (int unit : order) units[unit]->overwrite_sum();
      read_some();  // while the first ranks are about to write
    }
  });
}

// As soon as a rank needs a unit no more it tries to write, in an order of its own; what could not be written then is
// written between two steps.
TEST_P(Protocol, NoRankReadsWhatAnotherWritesEarly) {
  constexpr int kRanks = 8, kSteps = 30;
  ThreadRanks threads(kRanks);
  std::vector<SharedUnit> shared;
  for (const std::vector<int64_t>& numels : {std::vector<int64_t>{100, 70}, {1}, {3000}})
    shared.emplace_back(threads, UnitLayout(numels, kRanks, GetParam()));
  std::atomic<int> early = 0;
  threads.run([&](Ranks& ranks) {
    std::mt19937 random(ranks.rank());
    std::vector<std::unique_ptr<OwnUnit>> units;
    for (SharedUnit& unit : shared) units.push_back(std::make_unique<OwnUnit>(ranks, unit));
    for (auto& unit : units) unit->write_and_publish(0);
    std::vector<size_t> order(units.size());
    std::iota(order.begin(), order.end(), size_t{0});
    for (int step = 0; step < kSteps; ++step) {
      const auto now = static_cast<float>(step), next = now + 1;
      std::shuffle(order.begin(), order.end(), random);
      std::vector<bool> written(units.size());
      const auto try_to_write = [&](size_t unit) {
        if (written[unit] || !units[unit]->try_begin_write()) return;
        written[unit] = true;
        ++early;
        units[unit]->write_and_publish(next);
      };
      for (size_t i = 0; i < order.size(); ++i) {
        OwnUnit& unit = *units[order[i]];
        random() % 2 == 0 ? unit.expect_full(now) : unit.expect_copy(now);
        delay(random);
        for (size_t left = 0; left <= i; ++left) try_to_write(order[left]);
      }
      for (size_t unit = 0; unit < units.size(); ++unit) {
        if (written[unit]) continue;
        units[unit]->begin_write();
        units[unit]->write_and_publish(next);
      }
    }
  });
  EXPECT_GT(early, 0);
}

INSTANTIATE_TEST_SUITE_P(ShardsOf, Protocol, ::testing::Values(1, 2, 8), ::testing::PrintToStringParamName());

TEST(Exchange, RoundsNeverMix) {
  constexpr int kRounds = 300;
  ThreadRanks threads(8);
  threads.run([&](Ranks& ranks) {
    std::mt19937 random(ranks.rank());
    Exchange exchange(ranks);
    for (int round = 0; round < kRounds; ++round) {
      exchange.begin("counts", sizeof(int));
      const int own = 1000 * round + ranks.rank();
      exchange.round([&](char* mailbox) { std::memcpy(mailbox, &own, sizeof own); });
      delay(random);
      for (int rank = 0; rank < ranks.size(); ++rank) {
        int theirs = 0;
        std::memcpy(&theirs, exchange.mailbox(rank), sizeof theirs);
        ASSERT_EQ(theirs, 1000 * round + rank);
      }
    }
  });
}

TEST(Exchange, ThatRanksTakeForDifferentOnesIsToldToEach) {
  ThreadRanks threads(3);
  threads.run([&](Ranks& ranks) {
    Exchange exchange(ranks);
    exchange.begin(ranks.rank() == 1 ? "enters a barrier" : "enters a broadcast", 4);
    EXPECT_THAT(message_of<WaitFailure>([&] { exchange.round(); }),
                ::testing::ContainsRegex("rank 0 enters a broadcast where rank 1 enters a barrier|"
                                         "rank 1 enters a barrier where rank 2 enters a broadcast"));
  });
}

TEST(Ranks, AFailureIsHeardByWhoWaitsForSomebodyElse) {
  ThreadRanks threads(3);
  std::atomic<bool> heard = false;
  threads.run([&](Ranks& ranks) {
    if (ranks.rank() == 0) ranks.fail({0, "out of paper"});
    const std::vector<int> other{2};
    if (ranks.rank() == 1) {
      EXPECT_THAT(message_of<WaitFailure>([&] { ranks.wait(other, "waits", [&](int) { return heard.load(); }); }),
                  HasSubstr("rank 0 failed: out of paper"));
      heard = true;
    }
    while (!heard) std::this_thread::yield();
  });
}

TEST(Ranks, OneThatLeavesIsNamedByWhoStillWaitsForIt) {
  ThreadRanks threads(2);
  threads.run([&](Ranks& ranks) {
    if (ranks.rank() == 1) return;
    EXPECT_THAT(message_of<WaitFailure>([&] { ranks.wait(ranks.peers(), "waits", [](int) { return false; }); }),
                HasSubstr("rank 1 has returned early, or destroyed the model, while rank 0 waits. All ranks must"));
  });
}

TEST(Ranks, OneThatIsSilentIsNamedAfterTheTimeout) {
  ThreadRanks threads(2, std::chrono::milliseconds(200));
  std::atomic<bool> over = false;
  threads.run([&](Ranks& ranks) {
    while (ranks.rank() == 1 && !over) std::this_thread::yield();
    if (ranks.rank() == 1) return;
    EXPECT_THAT(message_of<WaitFailure>([&] { ranks.wait(ranks.peers(), "waits", [](int) { return false; }); }),
                HasSubstr("rank 1 did not answer within 200 ms"));
    over = true;
  });
}

TEST(Ranks, ThatAllWaitForEachOtherHaveGoneDifferentWays) {
  ThreadRanks threads(3);
  std::atomic<int> told = 0;
  threads.run([&](Ranks& ranks) {
    const std::string own = ranks.rank() == 1 ? "writes" : "reads";
    EXPECT_THAT(
        message_of<WaitFailure>([&] { ranks.wait(ranks.peers(), own, [](int) { return false; }); }),
        ::testing::ContainsRegex("(rank 0 reads where rank 1 writes|rank 1 writes where rank 2 reads), so no rank"));
    ++told;
    while (told < 3) std::this_thread::yield();  // the others find it too
  });
}

// Each begins one of two reductions and would wait for the other rank to begin it.
TEST(Reductions, ThatRanksBeginInDifferentOrderDoNotHoldEachOtherUp) {
  ThreadRanks threads(2);
  std::vector<SharedUnit> shared;
  for (int unit = 0; unit < 2; ++unit) shared.emplace_back(threads, UnitLayout({64}, 2, 2));
  std::atomic<int> hopeless = 0;
  threads.run([&](Ranks& ranks) {
    OwnUnit one(ranks, shared[ranks.rank()]), other(ranks, shared[1 - ranks.rank()]);
    one.begin_reduction(0);
    hopeless += !one.wait_begun();
    other.begin_reduction(0);
    EXPECT_TRUE(one.wait_begun());
    one.expect_sum(0);
    other.expect_sum(0);
  });
  EXPECT_GE(hopeless, 1);
}

TEST(Reductions, ThatAPeerIsOnItsWayToAreWaitedFor) {
  ThreadRanks threads(2);
  SharedUnit shared(threads, UnitLayout({64}, 2, 2));
  threads.run([&](Ranks& ranks) {
    OwnUnit unit(ranks, shared);
    if (ranks.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    unit.begin_reduction(0);
    EXPECT_TRUE(unit.wait_begun());
    unit.expect_sum(0);
  });
}

}  // namespace
}  // namespace fsdp::collectives::shm
