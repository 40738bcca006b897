// Transfers arrive one after the other, and all waits for them can be ended from another thread.
#include "collectives/hosts/transfer_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "support/message_of.h"

namespace fsdp::collectives::hosts {
namespace {

using fsdp::testing::message_of;

// Arrives when it is told to.
class HeldMessage final : public Message {
 public:
  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ || aborted_; });
    if (std::exchange(aborted_, false)) throw TransportFailure("the wait for rank 1 was given up", 1);
  }
  void abort() override {
    std::lock_guard lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }
  void arrive() {
    std::lock_guard lock(mutex_);
    arrived_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool arrived_ = false, aborted_ = false;
};

struct HeldTransfer {
  HeldTransfer() {
    auto message = std::make_unique<HeldMessage>();
    held = message.get();
    transfer.messages.push_back(std::move(message));
    transfer.arrived = [this] { arrived = true; };
  }

  Transfer transfer;
  HeldMessage* held;
  bool arrived = false;
};

TEST(TransferQueue, WaitsForOneAfterTheOther) {
  HeldTransfer first, second;
  TransferQueue queue;
  queue.add(first.transfer);
  queue.add(second.transfer);
  second.held->arrive();
  first.held->arrive();
  queue.wait(second.transfer);
  EXPECT_TRUE(first.arrived);
  EXPECT_TRUE(second.arrived);
  queue.wait(first.transfer);
}

TEST(TransferQueue, AnAbortEndsTheWaitForWhatIsBehindAnother) {
  HeldTransfer first, second, third;
  TransferQueue queue;
  queue.add(first.transfer);
  queue.add(second.transfer);
  std::string failure;
  std::thread waiting([&] { failure = message_of<TransportFailure>([&] { queue.wait(second.transfer); }); });
  queue.abort();
  waiting.join();
  EXPECT_EQ(failure, "the wait for rank 1 was given up");
  EXPECT_EQ(message_of<TransportFailure>([&] { queue.wait(first.transfer); }), failure);
  EXPECT_FALSE(first.arrived);
  EXPECT_FALSE(second.arrived);
  queue.add(third.transfer);
  third.held->arrive();
  queue.wait(third.transfer);
  EXPECT_TRUE(third.arrived);
}

TEST(TransferQueue, AnAbortOfNothingIsForgotten) {
  TransferQueue queue;
  queue.abort();
  HeldTransfer only;
  queue.add(only.transfer);
  only.held->arrive();
  queue.wait(only.transfer);
  EXPECT_TRUE(only.arrived);
}

TEST(TransferQueue, WhatIsCancelledDoesNotArrive) {
  HeldTransfer first, second;
  TransferQueue queue;
  queue.add(first.transfer);
  queue.add(second.transfer);
  queue.cancel(second.transfer);
  queue.cancel(first.transfer);
  EXPECT_FALSE(first.arrived);
  EXPECT_FALSE(second.arrived);
}

}  // namespace
}  // namespace fsdp::collectives::hosts
