// Calls that carry their facts, with threads as ranks.
#include "collectives/first_messages.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/local_transport.h"
#include "collectives/tensor_collectives.h"

namespace fsdp::collectives {
namespace {

// Counts the messages that are sent.
class Counting final : public Transport {
 public:
  explicit Counting(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  std::unique_ptr<Message> send(const void* bytes, size_t size, int peer, int tag) override {
    ++sends;
    return transport_->send(bytes, size, peer, tag);
  }
  std::unique_ptr<Message> receive(void* bytes, size_t size, int peer, int tag) override {
    return transport_->receive(bytes, size, peer, tag);
  }

  int sends = 0;

 private:
  std::unique_ptr<Transport> transport_;
};

CallFacts facts_with(int64_t number) {
  CallFacts facts;
  facts.own[0] = number;
  return facts;
}

class CallsWithFacts : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, CallsWithFacts, ::testing::Values(2, 3, 5), ::testing::PrintToStringParamName());

// Of every length, on both sides of each threshold.
TEST_P(CallsWithFacts, ThatAreEqualDoWhatTheOthersDo) {
  LocalNetwork network(GetParam());
  run_threads(GetParam(), [&](int rank) {
    const auto transport = network.transport(rank);
    TensorCollectives collectives(*transport);
    for (const int64_t numel : {0, 1, 92, 93, 16384, 16385, 300000}) {
      CallFacts facts = facts_with(numel);
      torch::Tensor sum = torch::full({numel}, rank + 1.0f), sent = torch::full({numel}, rank + 1.0f);
      collectives.compare(&facts);
      collectives.all_reduce_(sum);
      EXPECT_TRUE(sum.eq(GetParam() * (GetParam() + 1) / 2.0f).all().item<bool>()) << numel;
      collectives.compare(&facts);
      collectives.broadcast_(sent, 1);
      EXPECT_TRUE(sent.eq(2).all().item<bool>()) << numel;
      collectives.compare(&facts);
      const auto all = collectives.all_gather(torch::full({numel}, rank, torch::kInt32), "gathers");
      ASSERT_EQ(static_cast<int>(all.size()), GetParam());
      for (int from = 0; from < GetParam(); ++from) EXPECT_TRUE(all[from].eq(from).all().item<bool>());
      EXPECT_FALSE(facts.differ());
    }
  });
}

// One message to each peer, of a few bytes; one more for those that do not fit.
TEST_P(CallsWithFacts, NeedNoRoundOfTheirOwn) {
  LocalNetwork network(GetParam());
  run_threads(GetParam(), [&](int rank) {
    Counting transport(network.transport(rank));
    TensorCollectives collectives(transport);
    for (const int64_t numel : {1, 92, 93, 16384}) {
      CallFacts facts = facts_with(numel);
      torch::Tensor tensor = torch::ones({numel});
      transport.sends = 0;
      collectives.compare(&facts);
      collectives.all_reduce_(tensor);
      EXPECT_EQ(transport.sends, (GetParam() - 1) * (numel <= 92 ? 1 : 2));
    }
  });
}

// In each turn the last rank makes another call than the others. Nothing changes, and nothing is left behind: the local
// network refuses messages whose ends differ, and keeps those that nobody receives.
TEST_P(CallsWithFacts, ThatDifferAreKnownToEveryRankAndChangeNothing) {
  using Call = std::function<void(TensorCollectives&, torch::Tensor&)>;
  const Call sum = [](TensorCollectives& collectives, torch::Tensor& tensor) { collectives.all_reduce_(tensor); };
  const Call gather = [](TensorCollectives& collectives, torch::Tensor& tensor) {
    EXPECT_TRUE(collectives.all_gather(tensor, "gathers").empty());
  };
  const auto from = [](int source) -> Call {
    return [source](TensorCollectives& collectives, torch::Tensor& tensor) { collectives.broadcast_(tensor, source); };
  };
  const std::vector<std::pair<Call, int64_t>> calls{{sum, 1},     {sum, 500},     {sum, 501},     {sum, 100000},
                                                    {gather, 2},  {gather, 500},  {gather, 700},  {gather, 100000},
                                                    {from(0), 3}, {from(0), 500}, {from(1), 500}, {from(1), 100000}};
  LocalNetwork network(GetParam());
  run_threads(GetParam(), [&](int rank) {
    const auto transport = network.transport(rank);
    TensorCollectives collectives(*transport);
    for (size_t most = 0; most < calls.size(); ++most) {
      for (size_t last = 0; last < calls.size(); ++last) {
        if (most == last) continue;
        const bool is_last = rank == GetParam() - 1;
        const auto& [call, numel] = calls[is_last ? last : most];
        CallFacts facts = facts_with(static_cast<int64_t>(is_last ? last : most));
        torch::Tensor tensor = torch::full({numel}, rank + 1.0f);
        collectives.compare(&facts);
        call(collectives, tensor);
        ASSERT_TRUE(facts.differ());
        EXPECT_EQ(facts.of_ranks.front()[0], static_cast<int64_t>(most));
        EXPECT_EQ(facts.of_ranks.back()[0], static_cast<int64_t>(last));
        EXPECT_TRUE(tensor.eq(rank + 1.0f).all().item<bool>());
      }
    }
    torch::Tensor tensor = torch::ones({500});
    collectives.all_reduce_(tensor);
    EXPECT_TRUE(tensor.eq(GetParam()).all().item<bool>());
  });
}

}  // namespace
}  // namespace fsdp::collectives
