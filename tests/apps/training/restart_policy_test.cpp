#include "training/restart_policy.h"

#include <gtest/gtest.h>

namespace trainer {
namespace {

TEST(RestartPolicy, StartsAllAgainAsOftenAsAllowed) {
  RunOptions options;
  EXPECT_EQ(ranks_after({.ranks = 4}, options), 0);
  options.max_restarts = 2;
  EXPECT_EQ(ranks_after({.ranks = 4, .lost = 3, .restarts = 0}, options), 4);
  EXPECT_EQ(ranks_after({.ranks = 4, .restarts = 1}, options), 4);
  EXPECT_EQ(ranks_after({.ranks = 4, .restarts = 2}, options), 0);
}

TEST(RestartPolicy, GoesOnWithThoseThatAreLeft) {
  RunOptions options;
  options.elastic = "2:4";
  EXPECT_EQ(ranks_after({.ranks = 4, .lost = 1}, options), 3);
  EXPECT_EQ(ranks_after({.ranks = 3, .lost = 1}, options), 2);
  EXPECT_EQ(ranks_after({.ranks = 2, .lost = 1}, options), 2);  // no fewer
  EXPECT_EQ(ranks_after({.ranks = 4, .lost = 4}, options), 2);
  EXPECT_EQ(ranks_after({.ranks = 4, .lost = 1, .restarts = RunOptions::kRestarts}, options), 0);
}

TEST(RestartPolicy, GoesOnByItselfWhereThatIsAskedFor) {
  RunOptions options;
  options.hot_restart = true;
  EXPECT_EQ(ranks_after({.ranks = 2, .restarts = RunOptions::kRestarts - 1}, options), 2);
  options.max_restarts = 0;
  EXPECT_EQ(ranks_after({.ranks = 2}, options), 0);
}

}  // namespace
}  // namespace trainer
