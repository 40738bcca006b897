// The order of a broadcast's sends, and what each of them waits for.
#include "collectives/tree_broadcast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/local_transport.h"
#include "collectives/tags.h"

namespace fsdp::collectives {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kShort = kMostWithoutAnswers, kLong = kShort + 1;  // bytes

// One rank without peers. It notes the messages that are begun, and those that are waited for, which are over at once.
class NotingTransport final : public Transport {
 public:
  NotingTransport(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Message> send(const void*, size_t, int peer, int tag) override {
    if (tag == kBroadcastTag) children.push_back(peer);
    return begin((tag == kBroadcastTag ? "tensor to " : "answer to ") + std::to_string(peer));
  }
  std::unique_ptr<Message> receive(void*, size_t, int peer, int tag) override {
    return begin((tag == kBroadcastTag ? "tensor of " : "answer of ") + std::to_string(peer));
  }

  std::vector<std::string> notes;
  std::vector<int> children;  // in the order of the sends

 private:
  class NotedMessage final : public Message {
   public:
    NotedMessage(std::vector<std::string>& notes, std::string text) : notes_(notes), text_(std::move(text)) {}
    void wait() override { notes_.push_back("end: " + text_); }
    void abort() override {}

   private:
    std::vector<std::string>& notes_;
    std::string text_;
  };

  std::unique_ptr<Message> begin(const std::string& text) {
    notes.push_back(text);
    return std::make_unique<NotedMessage>(notes, text);
  }

  int rank_, size_;
};

NotingTransport after_broadcast(int rank, int size, int source, int64_t bytes) {
  NotingTransport transport(rank, size);
  broadcast_in_a_tree(transport, torch::empty({bytes}, torch::kByte), source);
  return transport;
}

TEST(TreeBroadcast, ASendBeginsAfterTheChildBeforeHasTheTensor) {
  EXPECT_THAT(after_broadcast(0, 8, 0, kLong).notes,
              ElementsAre("answer of 1", "tensor to 1", "end: answer of 1", "end: tensor to 1",  //
                          "answer of 2", "tensor to 2", "end: answer of 2", "end: tensor to 2",  //
                          "tensor to 4", "end: tensor to 4"));
}

TEST(TreeBroadcast, AChildAnswersBeforeItSendsUnlessItIsTheLastOne) {
  EXPECT_THAT(after_broadcast(3, 8, 1, kLong).notes,  // the second child of rank 1
              ElementsAre("tensor of 1", "end: tensor of 1", "answer to 1", "tensor to 7",  //
                          "end: answer to 1", "end: tensor to 7"));
  EXPECT_THAT(after_broadcast(5, 8, 1, kLong).notes, ElementsAre("tensor of 1", "end: tensor of 1"));
}

TEST(TreeBroadcast, ShortSendsBeginTogether) {
  EXPECT_THAT(after_broadcast(0, 8, 0, kShort).notes,
              ElementsAre("tensor to 1", "tensor to 2", "tensor to 4",  //
                          "end: tensor to 1", "end: tensor to 2", "end: tensor to 4"));
}

// The number of ranks below each rank, and of sends, one after the other, until it has the tensor.
struct Tree {
  Tree(int size, int source) : below(size, 0), sends(size, -1) {
    sends[source] = 0;
    add_children_of(source, size, source);
  }

  void add_children_of(int rank, int size, int source) {
    const std::vector<int> children = after_broadcast(rank, size, source, kLong).children;
    for (size_t i = 0; i < children.size(); ++i) {
      EXPECT_EQ(sends[children[i]], -1) << "rank " << children[i] << " has the tensor already";
      sends[children[i]] = sends[rank] + static_cast<int>(i) + 1;
      add_children_of(children[i], size, source);
      below[rank] += 1 + below[children[i]];
      if (i > 0) EXPECT_LE(below[children[i]], below[children[i - 1]]) << "the larger part of the tree comes later";
    }
  }

  std::vector<int> below, sends;
};

TEST(TreeBroadcast, EveryRankHasTheTensorAfterAsManySendsAsTheLogarithm) {
  for (int size = 1; size <= 33; ++size) {
    for (const int source : {0, size - 1}) {
      const Tree tree(size, source);
      EXPECT_EQ(tree.below[source], size - 1) << size;
      EXPECT_EQ(std::ranges::max(tree.sends), std::bit_width(static_cast<unsigned>(size - 1))) << size;
    }
  }
}

// A missing answer, or one too many, would leave a rank waiting.
TEST(TreeBroadcast, EachAnswerIsAwaited) {
  for (const int size : {2, 3, 6, 8}) {
    LocalNetwork network(size, std::chrono::minutes(1));
    run_threads(size, [&](int rank) {
      const auto transport = network.transport(rank);
      for (int turn = 0; turn < 2 * size; ++turn) {
        const int source = turn % size;
        torch::Tensor tensor = torch::full({kLong + turn}, rank, torch::kByte);
        broadcast_in_a_tree(*transport, tensor, source);
        EXPECT_TRUE(tensor.eq(source).all().item<bool>()) << size << " ranks, turn " << turn;
      }
    });
  }
}

}  // namespace
}  // namespace fsdp::collectives
