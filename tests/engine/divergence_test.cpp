// A rank that goes another way than its peers, once there is a plan: every rank's message names it, and soon. Over
// gloo, where ranks exchange what they gather, unless a test says otherwise.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <thread>

#include "support/pace.h"
#include "support/run_ranks.h"
#include "support/variable.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using fsdp::testing::run_ranks_to_end;
using fsdp::testing::RunResult;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kBlocks = 6, kSteps = 4, kDiverges = 2;

// A rank that nobody tells anything waits until ctest ends the test.
const auto kTimeout = testing::patient_options().timeout;

// Six matrices, used in an order that is given for each step.
struct Chain {
  std::vector<torch::Tensor> weights;
  std::vector<NamedUnit> units;

  Chain() {
    for (int i = 0; i < kBlocks; ++i) {
      weights.push_back(torch::eye(16).set_requires_grad(true));
      units.push_back({"blocks." + std::to_string(i), {{"weight" + std::to_string(i), weights[i]}}, {}});
    }
  }
  torch::Tensor operator()(const std::vector<int>& order) const {
    torch::Tensor x = torch::ones({2, 16});
    for (int block : order) {
      if (block < 0) throw std::runtime_error("out of paper");
      x = torch::relu(x.matmul(weights[block]));
    }
    return x;
  }
};

const std::vector<int> kInOrder{0, 1, 2, 3, 4, 5};

std::string failure_of(int rank) { return "rank " + std::to_string(rank) + " fails\n"; }

// One step, in which rank 1 may do something of its own. False: it wants no further step.
using Step = std::function<bool(const Chain& chain)>;

// Rank 1's third step is `other`; everything else is as it should be.
void train(World& world, const Step& other, Strategy strategy) {
  Chain chain;
  auto sharded = shard(chain.units, world, {.strategy = strategy});
  AdamW optimizer(sharded);
  for (int step = 0; step < kSteps; ++step) {
    if (world.rank() == 1 && step == kDiverges) {
      if (!other(chain)) return;
    } else {
      chain(kInOrder).sum().backward();
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  std::cout << "rank " << world.rank() << " took all steps" << std::endl;
}

RunResult run_with(int ranks, const Step& other, const std::string& backend = "gloo") {
  const auto body = [&](World& world) {
    try {
      train(world, other, Strategy::FullShard);
    } catch (const std::exception& error) {
      std::cout << failure_of(world.rank()) + error.what() + "\n" << std::flush;
      throw;
    }
  };
  return run_ranks_to_end(ranks, body, {.backend = backend, .timeout = kTimeout});
}

std::string message_start(int rank, int ranks, const std::string& unit) {
  return "\\[fsdp rank " + std::to_string(rank) + "/" + std::to_string(ranks) + unit + "\\] ";
}

class Divergence : public ::testing::TestWithParam<int> {};

// Every rank takes part in what rank 1 gathers.
void expect_none(const RunResult& result, int ranks) {
  EXPECT_EQ(result.exit_code, 0) << result.output;
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_THAT(result.output, HasSubstr("rank " + std::to_string(rank) + " took all steps"));
}

TEST_P(Divergence, IsNoneWhereARankUsesBlocksInAnotherOrder) {
  const auto result = run_with(GetParam(), [](const Chain& chain) {
    chain({0, 1, 2, 4, 3, 5}).sum().backward();
    return true;
  });
  expect_none(result, GetParam());
}

TEST_P(Divergence, IsNoneWhereARankSkipsABlock) {
  const auto result = run_with(GetParam(), [](const Chain& chain) {
    chain({0, 1, 2, 4, 5}).sum().backward();
    return true;
  });
  expect_none(result, GetParam());
}

TEST_P(Divergence, IsNoneWhereABackwardEndsEarly) {
  const auto result = run_with(GetParam(), [](const Chain& chain) {
    const torch::Tensor x = chain({0, 1, 2}).detach();
    torch::relu(x.matmul(chain.weights[3]).matmul(chain.weights[4]).matmul(chain.weights[5])).sum().backward();
    return true;
  });
  expect_none(result, GetParam());
}

// And the unit that each of them was waiting for.
void expect_all_name_rank_1(const RunResult& result, int ranks) {
  EXPECT_NE(result.exit_code, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == 1) continue;
    EXPECT_THAT(result.output,
                ContainsRegex(message_start(rank, ranks, " unit=blocks.[0-9]") + "[a-z_]+: [^\n]*rank 1[^\n]*"))
        << "rank " << rank;
    EXPECT_THAT(result.output, HasSubstr(failure_of(rank)));
  }
  EXPECT_THAT(result.output, HasSubstr("the connection to rank 1 was closed (it failed or ended early; see its own"));
  EXPECT_THAT(result.output, Not(HasSubstr("took all steps")));
  EXPECT_THAT(result.output, Not(HasSubstr("did not answer")));
}

TEST_P(Divergence, ByANormThatOneRankLogs) {
  const auto result = run_with(GetParam(), [](const Chain& chain) {
    chain(kInOrder).sum().backward();
    torch::NoGradGuard no_grad;
    const float norm = chain.weights[2].norm().item<float>();
    std::cout << "the norm is " << norm << std::endl;
    return true;
  });
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("rank 1 gathers unit blocks.2 outside of a plan, for aten::norm"));
  EXPECT_THAT(result.output, HasSubstr("Where one rank alone reads a parameter"));
  EXPECT_THAT(result.output, Not(HasSubstr("the norm is")));
}

TEST_P(Divergence, IsNoneWhereOneRankLogsANormBetweenForwardAndBackward) {
  const auto result = run_with(GetParam(), [](const Chain& chain) {
    const torch::Tensor loss = chain(kInOrder).sum();
    {
      torch::NoGradGuard no_grad;
      std::cout << "the norm is " << chain.weights[2].norm().item<float>() << std::endl;
    }
    loss.backward();
    return true;
  });
  expect_none(result, GetParam());
  EXPECT_THAT(result.output, HasSubstr("the norm is "));
}

TEST_P(Divergence, ByAnExceptionInTheMiddleOfTheForward) {
  const auto result = run_with(GetParam(), [](const Chain& chain) {
    chain({0, 1, 2, -1});
    return true;
  });
  expect_all_name_rank_1(result, GetParam());
  EXPECT_THAT(result.output, HasSubstr("] out of paper"));
}

TEST_P(Divergence, ByARankThatEndsEarly) {
  expect_all_name_rank_1(run_with(GetParam(), [](const Chain&) { return false; }), GetParam());
}

TEST_P(Divergence, IsNoneWhereUnitsStayFull) {
  run_ranks(GetParam(), [](World& world) {
    auto late_and_without_a_block = [](const Chain& chain) {
      testing::sleep_paced(std::chrono::milliseconds(2500));
      chain({0, 1, 2, 4, 3}).sum().backward();
      return true;
    };
    for (Strategy strategy : {Strategy::NoShard, Strategy::ShardOptimizer})
      train(world, late_and_without_a_block, strategy);
  });
}

// In shared memory a gather takes no part of the peers, whether it copies or not.
TEST_P(Divergence, InSharedMemoryIsNoneWhereRanksUseOtherBlocks) {
  auto train_in_other_orders = [](World& world) {
    auto in_another_order = [](const Chain& chain) {
      chain({0, 4, 2, 1}).sum().backward();
      return true;
    };
    train(world, in_another_order, Strategy::FullShard);
  };
  const LaunchOptions over_shm{.backend = "shm", .timeout = kTimeout};
  run_ranks(GetParam(), train_in_other_orders, over_shm);
  const testing::CopyingGathers copying;
  run_ranks(GetParam(), train_in_other_orders, over_shm);
}

// Rank 1 goes on with the step, and waits for those that it waits for no more.
TEST_P(Divergence, InSharedMemoryByABackwardThatIsLeftOut) {
  const auto result = run_ranks_to_end(GetParam(),
                                       [](World& world) {
                                         Chain chain;
                                         auto sharded = shard(chain.units, world);
                                         AdamW optimizer(sharded);
                                         chain(kInOrder).sum().backward();
                                         if (world.rank() != 1) chain(kInOrder).sum().backward();
                                         optimizer.step();
                                         std::cout << "rank " << world.rank() << " took all steps" << std::endl;
                                       },
                                       {.backend = "shm", .timeout = kTimeout});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(
      result.output,
      ::testing::AnyOf(ContainsRegex("rank 1 is about to write unit blocks.0 where rank [02] reduces unit"),
                       ContainsRegex("rank [02] reduces unit blocks.[0-9] where rank 1 is about to write unit")));
  EXPECT_THAT(result.output, HasSubstr("no rank can continue"));
  EXPECT_THAT(result.output, Not(HasSubstr("took all steps")));
  EXPECT_THAT(result.output, Not(HasSubstr("did not answer")));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Divergence, ::testing::Values(2, 3));

}  // namespace
}  // namespace fsdp
