// How the ranks of a host choose to gather.
#include "collectives/shm/gather_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include <filesystem>
#include <optional>

#include "collectives/shm/over_shm.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/variable.h"
#include "world/state.h"

namespace fsdp {
namespace {

using collectives::shm::choose_gather;
using collectives::shm::GatherBy;
using collectives::shm::GatherSeconds;
using ::testing::HasSubstr;
using testing::message_of;
using testing::run_rank_processes;
using testing::run_ranks;
using testing::run_ranks_to_end;
using testing::RunResult;

// A context of the world's ranks, which meet in `directory`.
collectives::shm::SharedMemoryContext make_context(const World& world, const std::filesystem::path& directory) {
  auto store = c10::make_intrusive<c10d::FileStore>((directory / "store").string(), world.size());
  return collectives::shm::SharedMemoryContext({.store = store, .rank = world.rank(), .size = world.size()});
}

TEST(ShmGather, IsWhatTheRanksOfSeveralNodesFindOutTogether) {
  const testing::ScratchDirectory scratch;
  run_ranks(
      3,
      [&](World& world) {
        auto context = make_context(world, scratch.path());
        const uint64_t before = context.memory()->allocate(1);
        context.memory()->free(before);
        for (const GatherSeconds& last : {GatherSeconds{2, 9}, GatherSeconds{9, 2}}) {
          const auto trial = [&](char*) { return world.rank() == 2 ? last : GatherSeconds{5, 5}; };
          EXPECT_EQ(choose_gather(context, world.rank() / 2, trial),
                    last.copy < last.map ? GatherBy::Copy : GatherBy::Map);
        }
        EXPECT_EQ(context.memory()->allocate(1), before);
        world.barrier();
      },
      testing::over_shm());
}

TEST(ShmGather, IsTriedWithThePeersMemory) {
  const testing::ScratchDirectory scratch;
  run_ranks(
      2,
      [&](World& world) {
        auto context = make_context(world, scratch.path());
        const auto choice = static_cast<int64_t>(choose_gather(context, world.rank()));
        for (const torch::Tensor& theirs : world.all_gather(torch::tensor(choice)))
          EXPECT_EQ(theirs.item<int64_t>(), choice);
      },
      testing::over_shm());
}

TEST(ShmGather, IsByTheMappingOnOneNode) {
  const testing::ScratchDirectory scratch;
  run_rank_processes(
      2,
      [&](World& world) {
        auto context = make_context(world, scratch.path());
        const auto never = [](char*) -> GatherSeconds { throw Error("tried on one node"); };
        EXPECT_EQ(choose_gather(context, 7, never), GatherBy::Map);
        const testing::CopyingGathers copying;
        EXPECT_EQ(choose_gather(context, world.rank(), never), GatherBy::Copy);
        const testing::Variable mapping("FSDP_SHM_GATHER", "map");
        EXPECT_EQ(choose_gather(context, world.rank(), never), GatherBy::Map);
      },
      testing::over_shm());
}

TEST(ShmGather, ByAnUnknownWordIsAnError) {
  const testing::Variable variable("FSDP_SHM_GATHER", "fast");
  const RunResult result = run_ranks_to_end(
      2, [](World&) {}, testing::over_shm());
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("the environment has FSDP_SHM_GATHER='fast', expected map or copy"));
}

TEST(ShmGather, ThatRanksWantToBeDifferentIsAnErrorOnEveryRank) {
  run_rank_processes(
      2,
      [](World& world) {
        std::optional<testing::CopyingGathers> copying;
        if (world.rank() == 1) copying.emplace();
        EXPECT_THAT(message_of<Error>([&] { world.state()->new_group(); }),
                    HasSubstr(world.rank() == 0 ? "FSDP_SHM_GATHER is copy on rank 1 and not set on rank 0"
                                                : "FSDP_SHM_GATHER is not set on rank 0 and copy on rank 1"));
        world.barrier();
      },
      testing::over_shm());
}

}  // namespace
}  // namespace fsdp
