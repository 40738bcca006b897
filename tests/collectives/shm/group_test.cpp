// The shm backend's group among real ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "collectives/group_checks.h"
#include "collectives/shm/over_shm.h"
#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/variable.h"
#include "world/state.h"

namespace fsdp {
namespace {

using collectives::Group;
using ::testing::HasSubstr;
using testing::message_of;
using testing::run_rank_processes;
using testing::run_ranks;
using testing::run_ranks_to_end;
using testing::RunResult;

class Shm : public ::testing::TestWithParam<int> {};

TEST_P(Shm, Gathers) {
  run_ranks(
      GetParam(), [](World& world) { collectives::check_gather(world.state()->group()); }, testing::over_shm());
}
TEST_P(Shm, GathersByCopies) {
  const testing::CopyingGathers copying;
  run_ranks(
      GetParam(), [](World& world) { collectives::check_gather(world.state()->group()); }, testing::over_shm());
}
TEST_P(Shm, WritesInAnyOrder) {
  run_ranks(
      GetParam(), [](World& world) { collectives::check_writes_in_any_order(world.state()->group()); },
      testing::over_shm());
}
TEST_P(Shm, Reduces) {
  run_ranks(
      GetParam(), [](World& world) { collectives::check_reduce(world.state()->group()); }, testing::over_shm());
}
TEST_P(Shm, MovesWholeTensors) {
  run_ranks(
      GetParam(), [](World& world) { collectives::check_whole_tensors(world.state()->group()); }, testing::over_shm());
}

INSTANTIATE_TEST_SUITE_P(Ranks, Shm, testing::drawn<int>({3}, {2, 4}), ::testing::PrintToStringParamName());

TEST(ShmGroup, AFurtherGroupHasMemoryOfItsOwn) {
  run_ranks(
      2,
      [](World& world) {
        auto group = world.state()->new_group();
        collectives::check_gather(*group);
        world.barrier();
        group.reset();
        world.barrier();
      },
      testing::over_shm());
}

TEST(ShmGroup, AFailurePoisonsTheGroupAndItsUnits) {
  run_ranks(
      2,
      [](World& world) {
        auto group = world.state()->new_group();
        auto unit = group->open_unit({0, "blocks.4", layout::UnitLayout({1000}, 2, 2)});
        torch::Tensor tensor = torch::zeros({4});
        const std::string first =
            message_of<Error>([&] { world.rank() == 1 ? group->barrier() : group->broadcast_(tensor, 0); });
        EXPECT_THAT(first, HasSubstr("where rank"));
        EXPECT_EQ(message_of<Error>([&] { unit->begin_write(collectives::Readers::Wait); }), first);
        EXPECT_EQ(message_of<Error>([&] { group->all_gather(tensor); }), first);
        world.barrier();
      },
      testing::over_shm());
}

int64_t count_open_files() {
  int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) count += entry.exists() || true;
  return count;
}

int64_t count_mappings() {
  std::ifstream maps("/proc/self/maps");
  int64_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:fsdp") != std::string::npos;
  return count;
}

TEST(ShmGroup, LeavesNothingBehindInItsProcess) {
  run_rank_processes(
      2,
      [](World& world) {
        const int64_t files = count_open_files(), mappings = count_mappings();
        for (int i = 0; i < 50; ++i) {
          auto group = world.state()->new_group();
          auto unit = group->open_unit({0, "unit", layout::UnitLayout({1000}, 2, 2)});
          testing::publish_and_gather(*group, *unit);
          unit->release();
          testing::reduce_thousand(*group, *unit);
          world.barrier();
        }
        EXPECT_EQ(count_open_files(), files);
        EXPECT_EQ(count_mappings(), mappings);
      },
      testing::over_shm());
}

// Every second one is killed before its reduction. Shared memory has no name and so ends with the processes that have
// it. FSDP_TEST_JOBS=<n> runs another number of them.
TEST(ShmGroup, JobsLeaveNoProcessBehind) {
  testing::ScratchDirectory scratch;
  const char* wanted = std::getenv("FSDP_TEST_JOBS");
  const int jobs = wanted ? std::atoi(wanted) : 50;
  std::vector<RunResult> results;
  for (int job = 0; job < jobs; ++job) {
    results.push_back(run_ranks_to_end(
        2,
        [&](World& world) {
          std::ofstream(scratch.path() / std::to_string(getpid()));
          Group& group = world.state()->group();
          auto unit = group.open_unit({0, "unit", layout::UnitLayout({1000}, 2, 2)});
          testing::publish_and_gather(group, *unit);
          if (job % 2 == 1 && world.rank() == 1) raise(SIGKILL);
          testing::reduce_thousand(group, *unit);
        },
        testing::over_shm()));
  }
  for (int job = 0; job < jobs; ++job)
    EXPECT_EQ(results[job].exit_code, job % 2 == 1 ? 128 + SIGKILL : 0) << results[job].output;
  int processes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
    ++processes;
    EXPECT_NE(kill(std::stoi(entry.path().filename()), 0), 0) << entry.path();
  }
  EXPECT_EQ(processes, 2 * jobs);
}

}  // namespace
}  // namespace fsdp
