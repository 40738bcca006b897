// Consignments arrive one after the other, and all waits for them can be ended from another thread.
#include "collectives/hosts/courier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "support/message_of.h"

namespace fsdp::collectives::hosts {
namespace {

using fsdp::testing::message_of;

// Arrives when it is told to.
class Held final : public Message {
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

struct Parcel {
  Parcel() {
    auto message = std::make_unique<Held>();
    held = message.get();
    consignment.messages.push_back(std::move(message));
    consignment.arrived = [this] { arrived = true; };
  }

  Consignment consignment;
  Held* held;
  bool arrived = false;
};

TEST(Courier, WaitsForOneAfterTheOther) {
  Parcel first, second;
  Courier courier;
  courier.take(first.consignment);
  courier.take(second.consignment);
  second.held->arrive();
  first.held->arrive();
  courier.wait(second.consignment);
  EXPECT_TRUE(first.arrived);
  EXPECT_TRUE(second.arrived);
  courier.wait(first.consignment);
}

TEST(Courier, AnAbortEndsTheWaitForWhatIsBehindAnother) {
  Parcel first, second, third;
  Courier courier;
  courier.take(first.consignment);
  courier.take(second.consignment);
  std::string failure;
  std::thread waiting([&] { failure = message_of<TransportFailure>([&] { courier.wait(second.consignment); }); });
  courier.abort();
  waiting.join();
  EXPECT_EQ(failure, "the wait for rank 1 was given up");
  EXPECT_EQ(message_of<TransportFailure>([&] { courier.wait(first.consignment); }), failure);
  EXPECT_FALSE(first.arrived);
  EXPECT_FALSE(second.arrived);
  courier.take(third.consignment);
  third.held->arrive();
  courier.wait(third.consignment);
  EXPECT_TRUE(third.arrived);
}

TEST(Courier, AnAbortOfNothingIsForgotten) {
  Courier courier;
  courier.abort();
  Parcel parcel;
  courier.take(parcel.consignment);
  parcel.held->arrive();
  courier.wait(parcel.consignment);
  EXPECT_TRUE(parcel.arrived);
}

TEST(Courier, WhatIsCancelledDoesNotArrive) {
  Parcel first, second;
  Courier courier;
  courier.take(first.consignment);
  courier.take(second.consignment);
  courier.cancel(second.consignment);
  courier.cancel(first.consignment);
  EXPECT_FALSE(first.arrived);
  EXPECT_FALSE(second.arrived);
}

}  // namespace
}  // namespace fsdp::collectives::hosts
