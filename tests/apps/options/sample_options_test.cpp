// Options that `fsdp-train sample` takes from the checkpoint cannot be given.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "options/command_line.h"

namespace trainer {
namespace {

using testing::ElementsAre;

TEST(SampleOptions, LeaveTheRanksToTheCheckpoint) {
  for (const auto& [flag, value] :
       {std::pair("--ranks", "2"), std::pair("--strategy", "no-shard"), std::pair("--shard-group-size", "1")}) {
    EXPECT_THAT(parse_command_line({"sample", "--checkpoint", "a", flag, value}).problems,
                ElementsAre(fmt::format("'{}' is an option of fsdp-train train, not of fsdp-train sample.", flag)));
  }
}

}  // namespace
}  // namespace trainer
