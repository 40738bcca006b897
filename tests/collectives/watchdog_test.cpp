// Ranks that wait, and learn of each other why, with threads as ranks and a timeout that no test may reach.
#include "collectives/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "collectives/exchange_group.h"
#include "collectives/local_transport.h"
#include "fsdp/error.h"
#include "support/message_of.h"
#include "support/pace.h"

namespace fsdp::collectives {
namespace {

using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::chrono::hours kTimeout{1};

// One rank of a group of a model with two units.
struct Rank {
  ExchangeGroup group;
  std::unique_ptr<UnitCollectives> first, second;
  torch::Tensor buffer;

  Rank(LocalNetwork& network, int rank, int ranks, std::unique_ptr<StatusBoard> board)
      : group(network.transport(rank), std::move(board)),
        first(group.open_unit({0, "blocks.3", layout::UnitLayout({32 * ranks}, ranks, ranks)})),
        second(group.open_unit({1, "blocks.4", layout::UnitLayout({32 * ranks}, ranks, ranks)})),
        buffer(torch::zeros({64 * ranks})) {}
  void gather_first() { gather(*first); }
  void gather_second() { gather(*second); }

 private:
  void gather(UnitCollectives& unit) {
    unit.begin_gather(buffer, Order::Common);
    unit.wait_gather();
    unit.release();
  }
};

// The message that each rank's body threw.
std::vector<std::string> messages(int ranks, const std::function<void(Rank&, int rank)>& body) {
  LocalNetwork network(ranks, kTimeout);
  std::vector<std::string> thrown(ranks);
  run_threads(ranks, [&](int rank) {
    Rank self(network, rank, ranks, network.board());
    thrown[rank] = message_of([&] { body(self, rank); });
  });
  return thrown;
}

class WatchedRanks : public ::testing::TestWithParam<int> {};

TEST_P(WatchedRanks, ThatGatherInAnotherOrderAreTold) {
  const auto thrown = messages(GetParam(), [](Rank& self, int rank) {
    self.gather_first();
    if (rank == 1) self.gather_second();
    self.gather_first();
    self.gather_second();
  });
  EXPECT_THAT(thrown[0], AllOf(StartsWith("[fsdp] rank 0 gathers unit blocks.3 where rank 1 gathers unit blocks.4 "
                                          "(operation 2 of this group). "),
                               HasSubstr("data?")));
  // Rank 1 names the one of the others that it hears of first.
  EXPECT_THAT(thrown[1], AnyOf(thrown[0], StartsWith("[fsdp] rank 1 gathers unit blocks.4 where rank 2 gathers unit "
                                                     "blocks.3 (operation 2 of this group). ")));
  for (const std::string& message : thrown) EXPECT_THAT(message, HasSubstr("rank 1 gathers unit blocks.4"));
}

TEST_P(WatchedRanks, OfWhichOneGathersWhereOthersTalkAreTold) {
  const auto thrown = messages(GetParam(), [](Rank& self, int rank) {
    self.group.barrier();
    if (rank == 0) {
      self.gather_first();
    } else {
      self.group.all_gather(torch::zeros({1}), "ends its backward");
    }
  });
  EXPECT_THAT(thrown[0], ContainsRegex("\\] rank 0 gathers unit blocks\\.3 where rank [12] ends its backward "));
  EXPECT_THAT(thrown[1], HasSubstr("] rank 0 gathers unit blocks.3 where rank 1 ends its backward"));
}

TEST_P(WatchedRanks, ThatAreSlowAreWaitedFor) {
  const auto thrown = messages(GetParam(), [](Rank& self, int rank) {
    self.gather_first();
    if (rank == 0) testing::sleep_paced(std::chrono::milliseconds(3500));
    self.gather_second();
    if (rank == 1) testing::sleep_paced(std::chrono::milliseconds(2500));
    self.group.barrier();
  });
  EXPECT_THAT(thrown, Each("no error"));
}

INSTANTIATE_TEST_SUITE_P(Ranks, WatchedRanks, ::testing::Values(2, 3));

// A board on which somebody else has written in rank 0's place.
class ForgedBoard final : public StatusBoard {
 public:
  enum class With { Garbage, WrongTag };

  ForgedBoard(std::unique_ptr<StatusBoard> board, With with) : board_(std::move(board)), with_(with) {}

  void post(int rank, const std::string& status) override { board_->post(rank, status); }
  std::optional<std::string> read(int rank) override {
    if (rank != 0) return board_->read(rank);
    if (with_ == With::WrongTag) throw Error("no rank of this job wrote it");
    return std::string(
        "1\0"
        "1\0"
        "99",
        6);
  }

 private:
  std::unique_ptr<StatusBoard> board_;
  With with_;
};

// The statuses of the others are read all the same.
TEST(Watchdog, AStatusThatNobodyCanReadIsNone) {
  for (ForgedBoard::With with : {ForgedBoard::With::Garbage, ForgedBoard::With::WrongTag}) {
    LocalNetwork network(3, kTimeout);
    std::vector<std::string> thrown(3);
    run_threads(3, [&](int rank) {
      Rank self(network, rank, 3, std::make_unique<ForgedBoard>(network.board(), with));
      thrown[rank] = message_of([&] {
        if (rank == 1) self.gather_second();
        self.gather_first();
      });
    });
    EXPECT_THAT(thrown[2], HasSubstr("rank 1 gathers unit blocks.4 where rank 2 gathers unit blocks.3"));
  }
}

// The failure of a rank reaches one that waits for another.
TEST(Watchdog, AFailureReachesThoseThatWait) {
  LocalNetwork network(3, kTimeout);
  std::vector<std::string> thrown(3);
  run_threads(3, [&](int rank) {
    Wire wire(network.transport(rank), network.board(), {10, 11, 12});
    thrown[rank] = message_of([&] {
      char byte = 0;
      Messages messages;
      if (rank > 0) messages.push_back(wire.receive(&byte, 1, rank - 1, 0));
      wire.guarded("[fsdp] ", "reduce", [&] {
        if (rank == 0) throw Error("[fsdp rank 10] out of paper");
        wire.wait_all(messages);
      });
    });
  });
  EXPECT_EQ(thrown[0], "[fsdp rank 10] out of paper");
  EXPECT_EQ(thrown[1], "[fsdp] reduce: rank 10 failed: [fsdp rank 10] out of paper");
  EXPECT_EQ(thrown[2], thrown[1]);
}

// Rank 2 loses rank 1, which gave up because it lost rank 0: the message names both.
TEST(Watchdog, ALostConnectionIsExplainedByThePeerThatClosedIt) {
  LocalNetwork network(3, kTimeout);
  std::vector<std::string> thrown(3);
  network.fail(0);
  run_threads(3, [&](int rank) {
    if (rank == 0) return;
    Wire wire(network.transport(rank), network.board(), {});
    char byte = 0;
    Messages messages;
    messages.push_back(wire.receive(&byte, 1, rank - 1, 0));
    thrown[rank] = message_of<PeerLost>([&] { wire.guarded("", "gather", [&] { wire.wait_all(messages); }); });
    network.fail(rank);
  });
  EXPECT_EQ(thrown[1], "gather: rank 0 is gone");
  EXPECT_EQ(thrown[2], "gather: rank 1 failed: gather: rank 0 is gone");
}

class Stalls : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(ByPeer, Stalls, ::testing::Bool());

// Rank 0 has begun a reduction of the unit. Rank 1 waits for rank 0 before it does, or is only slow.
TEST_P(Stalls, AReductionOfWhichAPeerWaitsForThisRank) {
  const bool peer_waits = GetParam();
  bool begun = false;
  const auto thrown = messages(2, [&](Rank& self, int rank) {
    const layout::GradientLayout layout({{64}, 2, 2}, {1});
    const torch::Tensor values = torch::ones({layout.full_numel()});
    const torch::Tensor staging = torch::zeros({self.first->staging_numel(layout)});
    GradientSum sum{torch::zeros({layout.shard_of(rank).numel()}), {0}};
    if (rank == 1 && peer_waits) self.group.barrier();
    if (rank == 1 && !peer_waits) testing::sleep_paced(std::chrono::milliseconds(2500));
    self.first->begin_reduce({&layout, values, {1}, staging}, sum);
    if (rank == 0) begun = self.first->wait_begun() == Begun::Yes;
    if (rank == 0 && peer_waits) self.group.barrier();
    self.first->wait_reduce();
    const bool same = rank == 1 || sum.values.equal(torch::full({64}, 2.0));  // rank 0 owns all 64 elements
    EXPECT_TRUE(same) << sum.values;
  });
  EXPECT_THAT(thrown, Each("no error"));
  EXPECT_EQ(begun, !peer_waits);
}

// Counts what it is used for.
class CountingBoard final : public StatusBoard {
 public:
  explicit CountingBoard(std::atomic<int>& uses) : uses_(uses) {}
  void post(int, const std::string&) override { ++uses_; }
  std::optional<std::string> read(int) override {
    ++uses_;
    return std::nullopt;
  }

 private:
  std::atomic<int>& uses_;
};

// Two ranks exchange for longer than the watchdog takes from one look to the next but one. Returns the longest wait.
std::chrono::steady_clock::duration exchange_for_long(std::atomic<int>& uses) {
  using Clock = std::chrono::steady_clock;
  Clock::duration longest{0};
  LocalNetwork network(2, kTimeout);
  run_threads(2, [&](int rank) {
    Rank self(network, rank, 2, std::make_unique<CountingBoard>(uses));
    const auto end = Clock::now() + std::chrono::milliseconds(2500) / testing::kPace;
    torch::Tensor late = torch::zeros({1}, torch::kBool);
    while (!late.item<bool>()) {
      const auto begin = Clock::now();
      self.gather_first();
      late.fill_(begin > end);
      self.group.all_reduce_(late);
      if (rank == 0) longest = std::max(longest, Clock::now() - begin);
    }
  });
  return longest;
}

// On a machine so busy that waits were long, nothing is known: once more.
TEST(Watchdog, ShortWaitsDoNotUseTheBoard) {
  std::atomic<int> uses = 0;
  while (exchange_for_long(uses) > std::chrono::milliseconds(400)) uses = 0;
  EXPECT_EQ(uses, 0);
}

// Cannot be reached.
class AbsentBoard final : public StatusBoard {
 public:
  void post(int, const std::string&) override { throw std::runtime_error("no board"); }
  std::optional<std::string> read(int) override { throw std::runtime_error("no board"); }
};

TEST(Watchdog, WithoutABoardTheConnectionsTell) {
  LocalNetwork network(2, kTimeout);
  Rank self(network, 0, 2, std::make_unique<AbsentBoard>());
  network.fail(1);
  EXPECT_THAT(message_of([&] { self.gather_first(); }), HasSubstr("gather: rank 1 is gone"));
}

}  // namespace
}  // namespace fsdp::collectives
