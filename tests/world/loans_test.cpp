// Long messages between real ranks, which read each other's memory, and the ends that such ranks can have.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/variable.h"

namespace fsdp {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::run_rank_processes;
using testing::run_ranks;
using testing::run_ranks_to_end;
using testing::RunResult;

constexpr int64_t kCount = int64_t{4} << 20;  // 16 MiB

torch::Tensor values_of(int number) { return torch::arange(kCount, torch::kInt32) + number; }

void check_arrives(World& world, int number) {
  torch::Tensor received = torch::zeros({kCount}, torch::kInt32);
  world.receive_(received, 0, number);
  EXPECT_TRUE(received.equal(values_of(number))) << number;
}

TEST(Loan, IsReadFromASenderThatIsStopped) {
  run_rank_processes(2, [](World& world) {
    torch::Tensor process = torch::tensor({int64_t{getpid()}});
    if (world.rank() == 0) {
      Work sent = world.send_async(values_of(0), 1);
      world.send(process, 1, 1);
      raise(SIGSTOP);
      sent.wait();
    } else {
      world.receive_(process, 0, 1);
      check_arrives(world, 0);
      kill(static_cast<pid_t>(process.item<int64_t>()), SIGCONT);
    }
    world.barrier();
  });
}

// In no order, and with a message through the ring between them.
TEST(Loan, ComesAsTheRingBringsIt) {
  for (const bool lends : {true, false}) {
    std::optional<testing::Variable> variable;
    if (!lends) variable.emplace("FSDP_SHM_LOANS", "off");
    run_ranks(3, [](World& world) {
      if (world.rank() == 0) {
        std::vector<Work> sent;
        for (const int number : {1, 2, 3}) sent.push_back(world.send_async(values_of(number), 1, number));
        for (Work& work : sent) work.wait();
      } else if (world.rank() == 1) {
        for (const int number : {3, 1, 2}) check_arrives(world, number);
      }
      world.barrier();
    });
  }
}

TEST(Loan, WithAnUnknownSettingIsAnError) {
  const testing::Variable variable("FSDP_SHM_LOANS", "on");
  const RunResult result = run_ranks_to_end(2, [](World&) {});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("the environment has FSDP_SHM_LOANS='on', expected off"));
}

TEST(Loan, OfASenderThatIsKilledIsAnErrorThatNamesIt) {
  const RunResult result = run_ranks_to_end(
      2,
      [](World& world) {
        if (world.rank() == 0) {
          Work sent = world.send_async(values_of(0), 1);
          raise(SIGKILL);
        }
        torch::Tensor received = torch::zeros({kCount}, torch::kInt32), other = received.clone();
        std::cout << message_of<Error>([&] {
          world.receive_(received, 0);
          world.receive_(other, 0, 1);
        }) << std::endl;
      },
      testing::patient_options());
  EXPECT_THAT(result.output, HasSubstr("rank 0 is gone (it was killed or crashed"));
}

TEST(Loan, OfAReceiverThatIsKilledIsAnErrorThatNamesIt) {
  const RunResult result = run_ranks_to_end(
      2,
      [](World& world) {
        torch::Tensor told = torch::zeros({1});
        if (world.rank() == 1) {
          world.receive_(told, 0, 1);  // and with it the frame of the loan
          raise(SIGKILL);
        }
        Work sent = world.send_async(values_of(0), 1);
        world.send(told, 1, 1);
        std::cout << message_of<Error>([&] { sent.wait(); }) << std::endl;
      },
      testing::patient_options());
  EXPECT_THAT(result.output, HasSubstr("rank 1 is gone (it was killed or crashed"));
}

// Rank 1 is in a call of the world, where it takes the message into memory.
TEST(Loan, IsTakenByARankInABarrier) {
  run_ranks(2, [](World& world) {
    if (world.rank() == 0) {
      torch::Tensor values = values_of(0);
      world.send(values, 1);
      values.zero_();
    }
    world.barrier();
    if (world.rank() == 1) check_arrives(world, 0);
    world.barrier();
  });
}

}  // namespace
}  // namespace fsdp
