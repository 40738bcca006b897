// The hosts backend among real ranks, on hosts that this machine pretends to be.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "collectives/group_checks.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "world/state.h"

namespace fsdp {
namespace {

using collectives::GradientSum;
using collectives::Group;
using collectives::UnitCollectives;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::message_of;
using testing::run_on_hosts;
using testing::run_on_hosts_to_end;
using testing::RunResult;

// It is what "auto" takes for them.
class HostsCollectives : public ::testing::TestWithParam<testing::Hosts> {};

TEST_P(HostsCollectives, Gathers) {
  run_on_hosts(GetParam(), [](World& world) { collectives::check_gather(world.state()->group()); });
}
TEST_P(HostsCollectives, GathersEachTime) {
  run_on_hosts(GetParam(), [](World& world) { collectives::check_gather_each_time(world.state()->group()); });
}
TEST_P(HostsCollectives, WritesInAnyOrder) {
  run_on_hosts(GetParam(), [](World& world) { collectives::check_writes_in_any_order(world.state()->group()); });
}
TEST_P(HostsCollectives, ReducesInRankOrder) {
  run_on_hosts(GetParam(), [](World& world) { collectives::check_reduce(world.state()->group()); });
}
TEST_P(HostsCollectives, MovesWholeTensors) {
  run_on_hosts(GetParam(), [](World& world) { collectives::check_whole_tensors(world.state()->group()); });
}

INSTANTIATE_TEST_SUITE_P(Of, HostsCollectives, ::testing::Values(testing::Hosts{2, 2}, testing::Hosts{3, 2}),
                         ::testing::PrintToStringParamName());

// The peers wait in another group meanwhile.
TEST(HostsUnit, GathersAreOneSidedBetweenTwoWrites) {
  run_on_hosts({}, [](World& world) {
    auto group = world.state()->new_group();
    auto unit = group->open_unit({0, "unit", layout::UnitLayout({1 << 20}, 4, 4)});
    EXPECT_FALSE(unit->capabilities().into_buffer);
    for (float step : {1.0f, 2.0f}) {
      unit->begin_write(collectives::Readers::Wait);
      unit->shard().fill_(step + static_cast<float>(world.rank()));
      unit->publish();
      for (int i = 0; world.rank() == 3 && i < 10; ++i) {
        const torch::Tensor full = torch::from_blob(unit->wait_gather(), {4, 1 << 18});
        for (int rank = 0; rank < 4; ++rank) {
          EXPECT_TRUE(full[rank].eq(step + static_cast<float>(rank)).all().item<bool>());
        }
        unit->release();
      }
      world.barrier();
    }
  });
}

// Ranks of each host leave as soon as they have published, and one reads what they wrote.
TEST(HostsUnit, APeerMayBeLate) {
  run_on_hosts({}, [](World& world) {
    auto unit = world.state()->group().open_unit({0, "unit", layout::UnitLayout({1 << 20}, 4, 4)});
    unit->shard().fill_(static_cast<float>(world.rank()));
    unit->publish();
    if (world.rank() != 2) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    EXPECT_EQ(static_cast<float*>(unit->wait_gather())[(1 << 20) - 1], 3);
  });
}

// Two units, of which one rank of each host waits for another one first; so both hosts have a rank that waits for the
// other host while its neighbour needs it.
TEST(HostsUnit, ReductionsEndInAnyOrder) {
  run_on_hosts({}, [](World& world) {
    Group& group = world.state()->group();
    const layout::UnitLayout layout({1000}, 4, 4);
    const layout::GradientLayout gradients(layout, {1});
    struct Reduction {
      std::unique_ptr<UnitCollectives> unit;
      torch::Tensor values, staging;
      GradientSum sum;
    };
    std::vector<Reduction> reductions;
    for (int id : {0, 1}) {
      auto unit = group.open_unit({id, "unit", layout});
      torch::Tensor values = group.allocate(gradients.full_numel() * 4).view(torch::kFloat32);
      torch::Tensor staging = torch::empty({unit->staging_numel(gradients)});
      const int64_t numel = gradients.shard_of(world.rank()).numel();
      reductions.push_back({std::move(unit), values, staging, {torch::zeros({numel}), {0}}});
    }
    for (int round = 1; round <= 20; ++round) {
      for (int i : {0, 1}) {
        Reduction& one = reductions[(i + world.rank()) % 2];
        one.values.fill_(static_cast<float>(world.rank()));
        one.unit->begin_reduce({&gradients, one.values, {1}, one.staging}, one.sum);
        if (i == 0 && world.rank() % 2 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      for (int i : {0, 1}) {
        Reduction& one = reductions[(i + world.local_rank() + world.rank() / 2) % 2];
        one.unit->wait_reduce();
        EXPECT_EQ(one.sum.values[0].item<float>(), 6 * round);
      }
    }
  });
}

void barrier(Group& group, UnitCollectives&) { group.barrier(); }

void gather(Group&, UnitCollectives& unit) {
  unit.publish();
  unit.begin_gather({}, collectives::Order::Common);
  unit.wait_gather();
}

void reduce(Group& group, UnitCollectives& unit) {
  const layout::GradientLayout layout(layout::UnitLayout({1000}, group.size(), group.size()), {1});
  GradientSum sum{torch::zeros({layout.shard_of(group.rank()).numel()}), {0}};
  const torch::Tensor gradients = group.allocate(layout.full_numel() * 4).view(torch::kFloat32);
  const torch::Tensor staging = torch::empty({unit.staging_numel(layout)});
  unit.begin_reduce({&layout, gradients, {1}, staging}, sum);
  unit.wait_reduce();
}

struct Wait {
  std::string name;
  std::string message;  // how it starts
  std::function<void(Group&, UnitCollectives&)> body;
  bool may_be_kept = true;  // the unit, by its host
};

const std::vector<Wait>& waits() {
  static const std::vector<Wait> all{{"Barrier", "\\] barrier: ", barrier},
                                     {"Gather", " unit=blocks.4\\] gather: ", gather},
                                     {"GatherEachTime", " unit=blocks.4\\] gather: ", gather, /*may_be_kept=*/false},
                                     {"Reduction", " unit=blocks.4\\] reduce: ", reduce}};
  return all;
}

class HostsWait : public ::testing::TestWithParam<Wait> {};

// Rank 3 of four does `misfortune`; the others wait: its neighbour, its counterpart and one that is neither.
std::vector<RunResult> run_with(const Wait& wait, const std::function<void()>& misfortune,
                                const LaunchOptions& options) {
  return run_on_hosts_to_end(
      {},
      [&](World& world) {
        auto group = world.state()->new_group();
        auto unit = group->open_unit(
            {.name = "blocks.4", .layout = layout::UnitLayout({1000}, 4, 4), .may_be_kept = wait.may_be_kept});
        world.barrier();
        if (world.rank() == 3) misfortune();
        wait.body(*group, *unit);
      },
      options);
}

TEST_P(HostsWait, ForARankThatIsKilledEndsBeforeTheTimeoutAndNamesItOnEveryRank) {
  const auto results = run_with(
      GetParam(), [] { raise(SIGKILL); }, testing::patient_options());
  EXPECT_EQ(results[3].exit_code, 128 + SIGKILL) << results[3].output;
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(results[rank].exit_code, 1);
    EXPECT_THAT(results[rank].output,
                ContainsRegex("rank [0-2]/4" + GetParam().message + ".*(rank 3 is gone|to rank 3 was closed)"));
  }
}

TEST_P(HostsWait, ForARankThatIsStuckEndsAfterTheTimeoutAndNamesItOnEveryRank) {
  const testing::ScratchDirectory told;  // a file for each rank that was
  Wait wait = GetParam();
  wait.body = [&](Group& group, UnitCollectives& unit) {
    try {
      GetParam().body(group, unit);
    } catch (const Error&) {
      std::ofstream(told.path() / std::to_string(group.rank()));
      throw;
    }
  };
  const auto is_stuck = [&] {
    const auto count = [&] { return std::distance(std::filesystem::directory_iterator(told.path()), {}); };
    while (count() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    _exit(7);
  };
  const auto results = run_with(wait, is_stuck, {.timeout = std::chrono::milliseconds(1500)});
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(results[rank].exit_code, 1);
    EXPECT_THAT(results[rank].output,
                ContainsRegex("rank [0-2]/4" + GetParam().message + ".*rank 3 did not answer within [13]500 ms"));
  }
}

INSTANTIATE_TEST_SUITE_P(For, HostsWait, ::testing::ValuesIn(waits()),
                         [](const auto& info) { return info.param.name; });

TEST(HostsGroup, ARankThatThrowsIsNamedWithItsMessageOnEveryRank) {
  const std::vector<RunResult> results = run_on_hosts_to_end({}, [](World& world) {
    Group& group = world.state()->group();
    auto unit = group.open_unit({0, "blocks.4", layout::UnitLayout({1000}, 4, 4)});
    if (world.rank() == 3) throw Error("the data are lost");
    reduce(group, *unit);
  });
  EXPECT_THAT(results[3].output, HasSubstr("the data are lost"));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(results[rank].output, HasSubstr("rank 3"));
    EXPECT_EQ(results[rank].exit_code, 1);
  }
}

// Who ends first closes its connections, and a rank may see that before it is told: then it points to that one's
// message.
void expect_to_be_told(const std::vector<RunResult>& results, const std::string& difference) {
  int told = 0;
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(results[rank].exit_code, 1) << results[rank].output;
    EXPECT_THAT(results[rank].output, AnyOf(HasSubstr(difference), HasSubstr("see its own message")));
    told += results[rank].output.find(difference) != std::string::npos;
  }
  EXPECT_GE(told, 1);
}

TEST(HostsGroup, RanksThatDoDifferentThingsAreTold) {
  const auto results = run_on_hosts_to_end({}, [](World& world) {
    Group& group = world.state()->group();
    world.rank() == 1 ? group.barrier() : void(group.all_gather(torch::zeros({4})));
  });
  expect_to_be_told(results, "rank 1 enters a barrier");
}

// One rank waits for its neighbour in shared memory, and the others for that rank over the wire.
TEST(HostsGroup, RanksThatWaitOnDifferentLevelsAreTold) {
  const auto results = run_on_hosts_to_end({}, [](World& world) {
    Group& group = world.state()->group();
    auto unit = group.open_unit({0, "blocks.4", layout::UnitLayout({1000}, 4, 4)});
    unit->publish();
    world.rank() == 1 ? void(unit->begin_write(collectives::Readers::Wait)) : group.barrier();
  });
  expect_to_be_told(results, "rank 1 is about to write unit blocks.4");
}

// The ranks of the first host wait for something behind another publication, for which nobody waits. All stay alive
// until all have been told.
TEST(HostsGroup, RanksThatWaitForALaterPublicationAreTold) {
  run_on_hosts({}, [](World& world) {
    auto group = world.state()->new_group();
    std::vector<std::unique_ptr<UnitCollectives>> units;
    for (int id : {0, 1, 2})
      units.push_back(group->open_unit({id, fmt::format("blocks.{}", id), layout::UnitLayout({1000}, 4, 4)}));
    const std::string told = message_of<Error>([&] {
      if (world.rank() >= 2) return group->barrier();
      units[0]->publish();
      units[1]->publish();
      units[2]->begin_write(collectives::Readers::Wait);
      units[1]->wait_gather();
    });
    EXPECT_THAT(told, AllOf(HasSubstr("is about to write unit blocks.2"), HasSubstr("enters a barrier")));
    world.barrier();
  });
}

TEST(HostsGroup, AFailurePoisonsTheGroupAndItsUnits) {
  run_on_hosts({}, [](World& world) {
    auto group = world.state()->new_group();
    auto unit = group->open_unit({0, "blocks.4", layout::UnitLayout({1000}, 4, 4)});
    unit->publish();
    unit->wait_gather();
    const torch::Tensor tensor = torch::zeros({4});
    const std::string first =
        message_of<Error>([&] { world.rank() == 1 ? group->barrier() : void(group->all_gather(tensor)); });
    EXPECT_THAT(first, HasSubstr("where rank"));
    EXPECT_EQ(message_of<Error>([&] { unit->begin_write(collectives::Readers::Wait); }), first);
    EXPECT_EQ(message_of<Error>([&] { group->all_gather(tensor); }), first);
    world.barrier();
  });
}

TEST(HostsBackend, WantsAsManyRanksOnEveryHost) {
  const std::string port = testing::free_port();
  auto variables = [&](int rank, int local_rank, int local_size) {
    return std::vector<std::string>{fmt::format("RANK={}", rank),
                                    "WORLD_SIZE=3",
                                    fmt::format("LOCAL_RANK={}", local_rank),
                                    fmt::format("LOCAL_WORLD_SIZE={}", local_size),
                                    "MASTER_ADDR=127.0.0.1",
                                    "MASTER_PORT=" + port,
                                    "GLOO_SOCKET_IFNAME=lo"};
  };
  const auto results = testing::run_processes(
      [] {
        LaunchOptions options = testing::test_options();
        options.backend = "hosts";
        return launch(options, [](World&) {});
      },
      {variables(0, 0, 2), variables(1, 1, 2), variables(2, 0, 1)});
  for (const RunResult& result : results) EXPECT_EQ(result.exit_code, 1);
  // It has the job's store, and so it is the one that certainly hears of all.
  EXPECT_THAT(results[0].output, HasSubstr("not as many on every host"));
}

}  // namespace
}  // namespace fsdp
