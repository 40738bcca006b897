// The shm backend among real ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <thread>

#include "buffers/arena.h"
#include "collectives/group_checks.h"
#include "collectives/shm/gather_choice.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/variable.h"
#include "world/state.h"

namespace fsdp {
namespace {

using collectives::GradientSum;
using collectives::Group;
using collectives::UnitCollectives;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::message_of;
using testing::run_ranks;
using testing::run_ranks_to_end;
using testing::RunResult;

// A timeout that no test may reach: ctest ends one that waits for it.
constexpr std::chrono::hours kHang{1};

LaunchOptions over_shm(std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  return {.backend = "shm", .timeout = timeout};
}

class Shm : public ::testing::TestWithParam<int> {};

TEST_P(Shm, Gathers) {
  run_ranks(
      GetParam(), [](World& world) { collectives::check_gather(world.state()->group()); }, over_shm());
}
TEST_P(Shm, GathersByCopies) {
  const testing::CopyingGathers copying;
  run_ranks(
      GetParam(), [](World& world) { collectives::check_gather(world.state()->group()); }, over_shm());
}
TEST_P(Shm, WritesInAnyOrder) {
  run_ranks(
      GetParam(), [](World& world) { collectives::check_writes_in_any_order(world.state()->group()); }, over_shm());
}
TEST_P(Shm, Reduces) {
  run_ranks(
      GetParam(), [](World& world) { collectives::check_reduce(world.state()->group()); }, over_shm());
}
TEST_P(Shm, MovesWholeTensors) {
  run_ranks(
      GetParam(), [](World& world) { collectives::check_whole_tensors(world.state()->group()); }, over_shm());
}

INSTANTIATE_TEST_SUITE_P(Ranks, Shm, ::testing::Values(2, 3, 4));

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
      over_shm());
}

// A gather hands out what the owners wrote, at the same address each time, and copies nothing.
TEST(ShmGroup, AUnitIsThereOnce) {
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
      over_shm());
}

torch::Tensor buffer_of(const Group& group, const UnitCollectives& unit) {
  return unit.capabilities().into_buffer ? torch::zeros({unit.shard().numel() * group.size()}) : torch::Tensor();
}

// It can be read while the owners write again.
TEST(ShmGroup, ACopyIsTheRanksOwn) {
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
        const torch::Tensor full = buffer_of(group, *unit);
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
      over_shm());
}

TEST(ShmGroup, AUnitThatIsOneShardIsNotCopied) {
  const testing::CopyingGathers copying;
  run_ranks(
      2,
      [](World& world) {
        auto unit = world.state()->group().open_unit({0, "unit", layout::UnitLayout({1000}, 2, 1)});
        EXPECT_FALSE(unit->capabilities().into_buffer);
        EXPECT_EQ(unit->wait_gather(), unit->shard().data_ptr());
      },
      over_shm());
}

TEST(ShmGroup, ARankMayGatherAloneBetweenTwoWrites) {
  run_ranks(
      2,
      [](World& world) {
        auto unit = world.state()->group().open_unit({0, "unit", layout::UnitLayout({1000}, 2, 2)});
        unit->shard().fill_(1);
        unit->publish();
        for (int i = 0; world.rank() == 0 && i < 100; ++i) unit->wait_gather(), unit->release();
        world.barrier();
      },
      over_shm());
}

// The owner is gone by the time that its peer reads.
TEST(ShmGroup, APeerMayBeLate) {
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
      over_shm());
}

TEST(ShmGroup, AReleasedUnitIsOutOfReach) {
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
      over_shm());
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV) << result.output;
}

void barrier(Group& group, UnitCollectives&) { group.barrier(); }

void gather(Group& group, UnitCollectives& unit) {
  const torch::Tensor buffer = buffer_of(group, unit);
  unit.publish();
  unit.begin_gather(buffer, collectives::Order::Common);
  unit.wait_gather();
}

void reduce(Group& group, UnitCollectives& unit) {
  const layout::GradientLayout layout(layout::UnitLayout({1000}, group.size(), group.size()), {1});
  GradientSum sum{torch::zeros({layout.shard_of(group.rank()).numel()}), {0}};
  const torch::Tensor gradients = group.allocate(layout.full_numel() * 4).view(torch::kFloat32);
  unit.begin_reduce({&layout, gradients, {1}, {}}, sum);
  unit.wait_reduce();
}

struct Wait {
  std::string name;
  std::string message;  // how it starts
  std::function<void(Group&, UnitCollectives&)> body;
  bool copies = false;
};

const std::vector<Wait>& waits() {
  static const std::vector<Wait> all{{"Barrier", "] barrier: ", barrier},
                                     {"Gather", " unit=blocks.4] gather: ", gather},
                                     {"CopyingGather", " unit=blocks.4] gather: ", gather, true},
                                     {"Reduction", " unit=blocks.4] reduce: ", reduce}};
  return all;
}

class ShmWait : public ::testing::TestWithParam<Wait> {};

// Rank 2 of three raises `signal`; the others wait.
RunResult run_with_signal(const Wait& wait, int signal, std::chrono::milliseconds timeout) {
  std::optional<testing::CopyingGathers> copying;
  if (wait.copies) copying.emplace();
  return run_ranks_to_end(
      3,
      [&](World& world) {
        auto group = world.state()->new_group();
        auto unit = group->open_unit({0, "blocks.4", layout::UnitLayout({1000}, 3, 3)});
        world.barrier();
        if (world.rank() == 2) raise(signal);
        wait.body(*group, *unit);
      },
      over_shm(timeout));
}

TEST_P(ShmWait, ForARankThatIsKilledEndsBeforeTheTimeoutAndNamesIt) {
  const RunResult result = run_with_signal(GetParam(), SIGKILL, kHang);
  EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.output;
  EXPECT_THAT(result.output, ContainsRegex("rank [01]/3" + GetParam().message + "rank 2 is gone \\(it was killed"));
}

TEST_P(ShmWait, ForARankThatIsStoppedEndsAfterTheTimeoutAndNamesIt) {
  const RunResult result = run_with_signal(GetParam(), SIGSTOP, std::chrono::seconds(3));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output,
              ContainsRegex("rank [01]/3" + GetParam().message + "rank 2 did not answer within 3000 ms"));
}

INSTANTIATE_TEST_SUITE_P(For, ShmWait, ::testing::ValuesIn(waits()), [](const auto& info) { return info.param.name; });

// The others have what it published, and miss it afterwards.
TEST(ShmGroup, ARankThatIsKilledWhileItCopiesIsNamed) {
  const testing::CopyingGathers copying;
  const RunResult result = run_ranks_to_end(
      3,
      [](World& world) {
        auto group = world.state()->new_group();
        auto unit = group->open_unit({0, "unit", layout::UnitLayout({3 << 23}, 3, 3)});
        unit->shard().fill_(1);
        unit->publish();
        const torch::Tensor full = buffer_of(*group, *unit);
        unit->begin_gather(full, collectives::Order::Common);
        std::thread killer;
        if (world.rank() == 2) {
          killer = std::thread([own = full.data_ptr<float>() + 2 * unit->shard().numel()] {
            while (*static_cast<volatile float*>(own) == 0) {
            }
            raise(SIGKILL);
          });
        }
        unit->wait_gather();
        EXPECT_TRUE(full.eq(1).all().item<bool>());
        group->barrier();
        killer.join();
      },
      over_shm(kHang));
  EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.output;
  EXPECT_THAT(result.output, ContainsRegex("rank [01]/3\\] barrier: rank 2 is gone \\(it was killed"));
}

using collectives::shm::choose_gather;
using collectives::shm::GatherBy;
using collectives::shm::GatherSeconds;

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
      over_shm());
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
      over_shm());
}

TEST(ShmGather, IsByTheMappingOnOneNode) {
  const testing::ScratchDirectory scratch;
  run_ranks(
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
      over_shm());
}

TEST(ShmGather, ByAnUnknownWordIsAnError) {
  const testing::Variable variable("FSDP_SHM_GATHER", "fast");
  const RunResult result = run_ranks_to_end(
      2, [](World&) {}, over_shm());
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("the environment has FSDP_SHM_GATHER='fast', expected map or copy"));
}

TEST(ShmGather, ThatRanksWantToBeDifferentIsAnErrorOnEveryRank) {
  run_ranks(
      2,
      [](World& world) {
        std::optional<testing::CopyingGathers> copying;
        if (world.rank() == 1) copying.emplace();
        EXPECT_THAT(message_of<Error>([&] { world.state()->new_group(); }),
                    HasSubstr(world.rank() == 0 ? "FSDP_SHM_GATHER is copy on rank 1 and not set on rank 0"
                                                : "FSDP_SHM_GATHER is not set on rank 0 and copy on rank 1"));
        world.barrier();
      },
      over_shm());
}

TEST(ShmGroup, RanksThatDoDifferentThingsAreTold) {
  const RunResult result = run_ranks_to_end(
      3,
      [](World& world) {
        Group& group = world.state()->group();
        torch::Tensor tensor = torch::zeros({4});
        world.rank() == 1 ? group.barrier() : group.broadcast_(tensor, 0);
      },
      over_shm(kHang));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output,
              ContainsRegex("rank 0/3\\] broadcast: rank 1 enters a barrier [^\n]*where rank 0 enters a"));
  EXPECT_THAT(result.output,
              ContainsRegex("rank 1/3\\] barrier: rank [02] enters a broadcast [^\n]*where rank 1 enters"));
  EXPECT_THAT(result.output,
              ContainsRegex("rank 2/3\\] broadcast: rank 1 enters a barrier [^\n]*where rank 2 enters a"));
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
      over_shm());
}

TEST(ShmGroup, AUnitForWhichThereIsNoMemoryIsAnErrorOnEveryRank) {
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
      over_shm());
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
  run_ranks(
      2,
      [](World& world) {
        const int64_t files = count_open_files(), mappings = count_mappings();
        for (int i = 0; i < 50; ++i) {
          auto group = world.state()->new_group();
          auto unit = group->open_unit({0, "unit", layout::UnitLayout({1000}, 2, 2)});
          gather(*group, *unit);
          unit->release();
          reduce(*group, *unit);
          world.barrier();
        }
        EXPECT_EQ(count_open_files(), files);
        EXPECT_EQ(count_mappings(), mappings);
      },
      over_shm());
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
          gather(group, *unit);
          if (job % 2 == 1 && world.rank() == 1) raise(SIGKILL);
          reduce(group, *unit);
        },
        over_shm()));
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
