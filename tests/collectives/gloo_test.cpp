// The gloo backend among real ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>
#include <thread>

#include "collectives/group_checks.h"
#include "support/drawn.h"
#include "support/run_ranks.h"
#include "world/state.h"

namespace fsdp {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;
using testing::run_ranks_to_end;

LaunchOptions over_gloo() {
  LaunchOptions options = testing::patient_options();
  options.backend = "gloo";
  return options;
}

class Gloo : public ::testing::TestWithParam<int> {};

TEST_P(Gloo, Gathers) {
  run_ranks(
      GetParam(), [](World& world) { collectives::check_gather(world.state()->group()); }, over_gloo());
}
TEST_P(Gloo, WritesInAnyOrder) {
  run_ranks(
      GetParam(), [](World& world) { collectives::check_writes_in_any_order(world.state()->group()); }, over_gloo());
}
TEST_P(Gloo, Reduces) {
  run_ranks(
      GetParam(), [](World& world) { collectives::check_reduce(world.state()->group()); }, over_gloo());
}
TEST_P(Gloo, MovesWholeTensors) {
  run_ranks(
      GetParam(), [](World& world) { collectives::check_whole_tensors(world.state()->group()); }, over_gloo());
}

INSTANTIATE_TEST_SUITE_P(Ranks, Gloo, testing::drawn<int>({3}, {2, 4}), ::testing::PrintToStringParamName());

TEST(GlooGroup, AFurtherGroupHasConnectionsOfItsOwn) {
  run_ranks(
      2,
      [](World& world) {
        auto group = world.state()->new_group();
        collectives::check_gather(*group);
        world.barrier();
        group.reset();
        world.barrier();
      },
      over_gloo());
}

// A unit that is destroyed while a slower peer still reads from it.
TEST(GlooGroup, APeerMayBeLate) {
  run_ranks(
      2,
      [](World& world) {
        auto unit = world.state()->group().open_unit({0, "unit", layout::UnitLayout({1 << 20}, 2, 2)});
        unit->shard().fill_(world.rank() + 1);
        torch::Tensor buffer = torch::zeros({1 << 20});
        if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
        unit->begin_gather(buffer, collectives::Order::Common);
        unit->wait_gather();
        EXPECT_EQ(buffer[0].item<float>(), 1);
        EXPECT_EQ(buffer[-1].item<float>(), 2);
      },
      over_gloo());
}

// Both the gather's memory and the group go away while Gloo still has it.
TEST(GlooGroup, ADeadPeerHoldsUpNoDestructor) {
  auto result = run_ranks_to_end(
      2,
      [](World& world) {
        auto unit = world.state()->group().open_unit({0, "blocks.4", layout::UnitLayout({1 << 22}, 2, 2)});
        world.barrier();
        if (world.rank() == 1) raise(SIGKILL);
        {
          torch::Tensor buffer = torch::zeros({1 << 22});
          unit->begin_gather(buffer, collectives::Order::Common);
          unit->wait_gather();
        }
      },
      over_gloo());
  EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.output;
  EXPECT_THAT(result.output, HasSubstr("[fsdp rank 0/2 unit=blocks.4] gather: the connection to rank 1 was closed"));
}

}  // namespace
}  // namespace fsdp
