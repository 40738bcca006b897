#include "run/first_rank.h"

#include <gtest/gtest.h>

#include "support/message_of.h"
#include "support/run_ranks.h"

namespace trainer {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;

TEST(FirstRank, TellsAllRanksWhatItFound) {
  run_ranks(3, [](fsdp::World& world) {
    for (const std::string& text : {std::string("run/step-3\0run/step-2", 21), std::string()}) {
      EXPECT_EQ(from_first_rank(world, [&] { return world.rank() == 0 ? text : "another"; }), text);
    }
  });
}

TEST(FirstRank, FailsOnAllRanksAndSaysWhyOnce) {
  run_ranks(2, [](fsdp::World& world) {
    const std::string message =
        message_of<fsdp::Error>([&] { from_first_rank(world, []() -> std::string { throw fsdp::Error("no disk"); }); });
    EXPECT_EQ(message, world.rank() == 0 ? "no disk" : "rank 0 says what is wrong.");
  });
}

}  // namespace
}  // namespace trainer
