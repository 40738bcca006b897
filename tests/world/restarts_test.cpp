// When a job starts again, and after which pause.
#include "world/restarts.h"

#include <gtest/gtest.h>

namespace fsdp::world {
namespace {

using namespace std::chrono_literals;

TEST(Restarts, AreAsManyAsAllowed) {
  const LaunchOptions options{.ranks = 2, .max_restarts = 2};
  Restarts restarts(options);
  EXPECT_EQ(restarts.after({.ranks = 2}, 1min).message, "Starting all 2 again (restart 1 of 2).");
  EXPECT_EQ(restarts.after({.ranks = 2}, 1min).ranks, 2);
  EXPECT_EQ(restarts.after({.ranks = 2}, 1min).ranks, 0);
  EXPECT_EQ(restarts.count(), 2);
}

TEST(Restarts, AreDecidedByWhoIsAsked) {
  LaunchOptions options{.ranks = 4};
  options.restart_with = [](const JobFailure& failure) { return failure.ranks - failure.lost - failure.restarts; };
  Restarts restarts(options);
  const Restarts::Again again = restarts.after({.ranks = 4, .lost = 1}, 1min);
  EXPECT_EQ(again.ranks, 3);
  EXPECT_EQ(again.message, "Starting 3 ranks in place of 4 again (restart 1).");
  EXPECT_EQ(restarts.after({.ranks = 3, .lost = 2}, 1min).ranks, 0);
  EXPECT_EQ(Restarts(options).after({.ranks = 2, .lost = 1}, 1min).message,
            "Starting 1 rank in place of 2 again (restart 1).");
}

TEST(Restarts, OfJobsThatFailSoonWaitLongerEachTime) {
  const LaunchOptions options{.ranks = 2, .max_restarts = 100};
  Restarts restarts(options);
  EXPECT_EQ(restarts.after({}, 1s).pause, 0ms);
  EXPECT_EQ(restarts.after({}, 1s).pause, 200ms);
  EXPECT_EQ(restarts.after({}, 1s).pause, 400ms);
  for (int i = 0; i < 20; ++i) EXPECT_LE(restarts.after({}, 1s).pause, 10s);
  EXPECT_EQ(restarts.after({}, 1min).pause, 0ms);
  EXPECT_EQ(restarts.after({}, 1s).pause, 0ms);
}

}  // namespace
}  // namespace fsdp::world
