// How waits in shared memory end, among real ranks, when one of them is killed, is stopped or does something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>
#include <functional>
#include <optional>
#include <thread>

#include "collectives/shm/over_shm.h"
#include "support/run_ranks.h"
#include "support/variable.h"
#include "world/state.h"

namespace fsdp {
namespace {

using collectives::Group;
using collectives::UnitCollectives;
using ::testing::ContainsRegex;
using testing::run_ranks_to_end;
using testing::RunResult;

struct ShmOperation {
  std::string name;
  std::string message;  // how it starts
  std::function<void(Group&, UnitCollectives&)> body;
  bool copies = false;
};

const std::vector<ShmOperation>& shm_operations() {
  static const std::vector<ShmOperation> all{
      {"Barrier", "] barrier: ", [](Group& group, UnitCollectives&) { group.barrier(); }},
      {"LongSum", "] all_reduce: ",
       [](Group& group, UnitCollectives&) {
         torch::Tensor values = torch::ones({1 << 22});
         group.all_reduce_(values);
       }},
      {"Gather", " unit=blocks.4] gather: ", testing::publish_and_gather},
      {"CopyingGather", " unit=blocks.4] gather: ", testing::publish_and_gather, true},
      {"Reduction", " unit=blocks.4] reduce: ", testing::reduce_thousand}};
  return all;
}

class ShmWait : public ::testing::TestWithParam<ShmOperation> {};

// Rank 2 of three raises `signal`; the others wait.
RunResult run_with_signal(const ShmOperation& wait, int signal, std::chrono::milliseconds timeout) {
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
      testing::over_shm(timeout));
}

// The beginning of an error of one of them, or of both.
std::string from_ranks_0_and_1(const ShmOperation& wait) {
  const size_t end = wait.message.find("] ");
  const std::string unit = wait.message.substr(0, end), operation = wait.message.substr(end + 2);
  return "(\\[fsdp rank [01]/3" + unit + "\\]|\\[fsdp" + unit + "\\] ranks 0, 1:) " + operation;
}

TEST_P(ShmWait, ForARankThatIsKilledEndsBeforeTheTimeoutAndNamesIt) {
  const RunResult result = run_with_signal(GetParam(), SIGKILL, testing::patient_options().timeout);
  EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.output;
  EXPECT_THAT(result.output, ContainsRegex(from_ranks_0_and_1(GetParam()) + "rank 2 is gone \\(it was killed"));
}

TEST_P(ShmWait, ForARankThatIsStoppedEndsAfterTheTimeoutAndNamesIt) {
  const RunResult result = run_with_signal(GetParam(), SIGSTOP, std::chrono::seconds(3));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, ContainsRegex(from_ranks_0_and_1(GetParam()) + "rank 2 did not answer within 3000 ms"));
}

INSTANTIATE_TEST_SUITE_P(For, ShmWait, ::testing::ValuesIn(shm_operations()),
                         [](const auto& info) { return info.param.name; });

// The others have what it published, and miss it afterwards.
TEST(ShmRanks, ARankThatIsKilledWhileItCopiesIsNamed) {
  const testing::CopyingGathers copying;
  const RunResult result = run_ranks_to_end(
      3,
      [](World& world) {
        auto group = world.state()->new_group();
        auto unit = group->open_unit({0, "unit", layout::UnitLayout({3 << 23}, 3, 3)});
        unit->shard().fill_(1);
        unit->publish();
        const torch::Tensor full = testing::buffer_of(*group, *unit);
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
      testing::over_shm(testing::patient_options().timeout));
  EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.output;
  EXPECT_THAT(result.output, ContainsRegex("(rank [01]/3\\]|ranks 0, 1:) barrier: rank 2 is gone \\(it was killed"));
}

TEST(ShmRanks, RanksThatDoDifferentThingsAreTold) {
  const RunResult result = run_ranks_to_end(
      3,
      [](World& world) {
        Group& group = world.state()->group();
        torch::Tensor tensor = torch::zeros({4});
        world.rank() == 1 ? group.barrier() : group.broadcast_(tensor, 0);
      },
      testing::over_shm(testing::patient_options().timeout));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output,
              ContainsRegex("(rank 0/3\\]|ranks 0, 1:) rank 0 enters a broadcast [^\n]*where rank 1 enters a "
                            "barrier"));
  EXPECT_THAT(result.output,
              ContainsRegex("(rank 2/3\\]|ranks 1, 2:) rank 1 enters a barrier [^\n]*where rank 2 enters a "
                            "broadcast"));
}

}  // namespace
}  // namespace fsdp
