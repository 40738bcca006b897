// Four ranks on two hosts.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/models.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"
#include "world/two_hosts.h"

namespace fsdp {
namespace {

using testing::TwoHosts;

// Expects that `body` succeeds in all ranks, or skips where there can be no two hosts.
void run_on_two_hosts(const std::function<void(World&)>& body) {
  const TwoHosts hosts;
  if (!hosts.problem().empty()) GTEST_SKIP() << hosts.problem();
  std::vector<std::vector<std::string>> variables;
  for (int rank = 0; rank < 4; ++rank) variables.push_back(hosts.variables(rank));
  const auto results = testing::run_processes(
      [&] {
        TwoHosts::enter();
        return launch(testing::test_options(), body);
      },
      variables);
  for (size_t rank = 0; rank < results.size(); ++rank) {
    EXPECT_EQ(results[rank].exit_code, 0) << "rank " << rank << " wrote:\n" << results[rank].output;
  }
}

TEST(Hosts, TellARankWhichOfThemItIsOn) {
  run_on_two_hosts([](World& world) {
    EXPECT_EQ(world.size(), 4);
    EXPECT_EQ(world.local_size(), 2);
    EXPECT_EQ(world.local_rank(), world.rank() % 2);
    EXPECT_EQ(world.split(world.rank() / 2).local_size(), 2);
    EXPECT_EQ(world.split(world.rank() % 2).local_size(), 1);
  });
}

TEST(Hosts, HybridStrategiesGiveTheBitsOfOneProcess) {
  run_on_two_hosts([](World& world) {
    for (Strategy strategy : {Strategy::HybridShard, Strategy::HybridShardGradOp, Strategy::FullShard}) {
      SCOPED_TRACE(static_cast<int>(strategy));
      testing_models::expect_same_bits([] { return testing_models::make_gpt(); }, world,
                                       {.steps = 5, .micro_batches = 8, .clip = 0.05}, {.strategy = strategy});
    }
  });
}

// What the cable carries to this host in a forward pass without gradients, which is gathers alone.
long bytes_of_gathers(World& world, Strategy strategy) {
  const auto model = testing_models::make_gpt(/*blocks=*/3, /*width=*/128);
  auto sharded = shard(*model.module, world, {.strategy = strategy});
  const torch::NoGradGuard no_grad;
  world.barrier();
  const long before = TwoHosts::received_bytes();
  model.loss(0);
  world.barrier();
  return TwoHosts::received_bytes() - before;
}

TEST(Hosts, GathersOfHybridShardStayOnTheHost) {
  run_on_two_hosts([](World& world) {
    const auto model = testing_models::make_gpt(/*blocks=*/3, /*width=*/128);
    long parameter_bytes = 0;
    for (const auto& parameter : model.module->parameters()) parameter_bytes += static_cast<long>(parameter.nbytes());
    // Half of the model lies on the other host, and each of this host's two ranks receives it.
    EXPECT_GE(bytes_of_gathers(world, Strategy::FullShard), parameter_bytes);
    // What is left are barriers.
    EXPECT_LT(bytes_of_gathers(world, Strategy::HybridShard), parameter_bytes / 20);
  });
}

}  // namespace
}  // namespace fsdp
