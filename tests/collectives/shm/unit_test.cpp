// The shm backend's units among real ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>
#include <iostream>
#include <thread>

#include "buffers/arena.h"
#include "collectives/shm/over_shm.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/variable.h"
#include "world/state.h"

namespace fsdp {
namespace {

using collectives::Group;
using ::testing::ContainsRegex;
using testing::message_of;
using testing::run_ranks;
using testing::run_ranks_to_end;
using testing::RunResult;

// A gather hands out what the owners wrote, at the same address each time, and copies nothing.
TEST(ShmUnit, AUnitIsThereOnce) {
  run_ranks(
      2,
      [](World& world) {
        auto unit = world.state()->group().open_unit({0, "unit", layout::UnitLayout({1 << 20}, 2, 2)});
        unit->shard().fill_(world.rank() + 1);
        unit->publish();
        EXPECT_FALSE(unit->capabilities().into_buffer);
        void* first = unit->wait_gather();
        const torch::Tensor full = torch::from_blob(first, {1 << 20});
        EXPECT_EQ(full[0].item<float>(), 1);
        EXPECT_EQ(full[-1].item<float>(), 2);
        unit->release();
        unit->begin_write(collectives::Readers::Wait);
        unit->shard().fill_(world.rank() + 3);
        unit->publish();
        EXPECT_EQ(unit->wait_gather(), first);
        EXPECT_EQ(full[0].item<float>(), 3);
        EXPECT_EQ(full[-1].item<float>(), 4);
      },
      testing::over_shm());
}

// It can be read while the owners write again.
TEST(ShmUnit, ACopyIsTheRanksOwn) {
  const testing::CopyingGathers copying;
  run_ranks(
      2,
      [](World& world) {
        Group& group = world.state()->group();
        auto unit = group.open_unit({0, "unit", layout::UnitLayout({1 << 20}, 2, 2)});
        unit->shard().fill_(world.rank() + 1);
        unit->publish();
        ASSERT_TRUE(unit->capabilities().into_buffer);
        EXPECT_TRUE(unit->capabilities().one_sided);
        const torch::Tensor full = testing::buffer_of(group, *unit);
        const auto expect_ends = [&](float first, float last) {
          EXPECT_EQ(full[0].item<float>(), first);
          EXPECT_EQ(full[-1].item<float>(), last);
        };
        unit->begin_gather(full, collectives::Order::Common);
        EXPECT_EQ(unit->wait_gather(), full.data_ptr());
        expect_ends(1, 2);
        unit->release();
        unit->begin_write(collectives::Readers::Wait);
        unit->shard().fill_(world.rank() + 3);
        unit->publish();
        expect_ends(1, 2);
        unit->begin_gather(full, collectives::Order::Common);
        unit->wait_gather();
        expect_ends(3, 4);
        world.barrier();
      },
      testing::over_shm());
}

TEST(ShmUnit, AUnitThatIsOneShardIsNotCopied) {
  const testing::CopyingGathers copying;
  run_ranks(
      2,
      [](World& world) {
        auto unit = world.state()->group().open_unit({0, "unit", layout::UnitLayout({1000}, 2, 1)});
        EXPECT_FALSE(unit->capabilities().into_buffer);
        EXPECT_EQ(unit->wait_gather(), unit->shard().data_ptr());
      },
      testing::over_shm());
}

TEST(ShmUnit, GathersAreOneSidedBetweenTwoWrites) {
  run_ranks(
      2,
      [](World& world) {
        auto unit = world.state()->group().open_unit({0, "unit", layout::UnitLayout({1000}, 2, 2)});
        unit->shard().fill_(1);
        unit->publish();
        for (int i = 0; world.rank() == 0 && i < 100; ++i) unit->wait_gather(), unit->release();
        world.barrier();
      },
      testing::over_shm());
}

// The owner is gone by the time that its peer reads.
TEST(ShmUnit, APeerMayBeLate) {
  run_ranks(
      2,
      [](World& world) {
        auto unit = world.state()->group().open_unit({0, "unit", layout::UnitLayout({1 << 20}, 2, 2)});
        unit->shard().fill_(world.rank() + 1);
        unit->publish();
        if (world.rank() == 0) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        EXPECT_EQ(*static_cast<float*>(unit->wait_gather()), 1);
      },
      testing::over_shm());
}

TEST(ShmUnit, AReleasedUnitIsOutOfReach) {
  if (!buffers::poisons()) GTEST_SKIP() << "this build does not protect released memory";
  const RunResult result = run_ranks_to_end(
      2,
      [](World& world) {
        auto unit = world.state()->group().open_unit({0, "unit", layout::UnitLayout({1000}, 2, 2)});
        unit->publish();
        auto* full = static_cast<volatile float*>(unit->wait_gather());
        EXPECT_EQ(full[0], 0);
        unit->release();
        unit->shard().fill_(1);
        world.barrier();
        std::signal(SIGSEGV, SIG_DFL);  // a sanitizer has a handler that reports it
        if (world.rank() == 1) std::cout << full[0] << std::endl;
        world.barrier();
      },
      testing::over_shm());
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV) << result.output;
}

TEST(ShmUnit, AUnitForWhichThereIsNoMemoryIsAnErrorOnEveryRank) {
  run_ranks(
      2,
      [](World& world) {
        auto group = world.state()->new_group();
        EXPECT_THAT(message_of<Error>([&] {
                      group->open_unit({0, "blocks.4", layout::UnitLayout({int64_t{1} << 44}, 2, 2)});
                    }),
                    ContainsRegex("unit=blocks.4\\] open: |bytes of free memory"));
        world.barrier();
      },
      testing::over_shm());
}

}  // namespace
}  // namespace fsdp
