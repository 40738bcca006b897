// Every strategy on hosts that this machine pretends to be: the bits of one process, and the memory of
// docs/memory.md.
#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>

#include "engine/model.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using ::testing::HasSubstr;
using testing::Hosts;
using testing::run_on_hosts;
using testing_models::expect_same_bits;
using testing_models::Expected;
using testing_models::make_gpt;
using testing_models::Training;

struct Choice {
  std::string name;
  Options options;
};

Choice grouped(Strategy strategy, int shard_group_size) {
  return {fmt::format("strategy {} of {}", static_cast<int>(strategy), shard_group_size),
          {.strategy = strategy, .shard_group_size = shard_group_size}};
}

std::vector<Choice> choices() {
  std::vector<Choice> all;
  for (Strategy strategy : {Strategy::FullShard, Strategy::ShardGradOp, Strategy::ShardOptimizer, Strategy::NoShard,
                            Strategy::HybridShard, Strategy::HybridShardGradOp}) {
    all.push_back(grouped(strategy, 0));
  }
  all.push_back(grouped(Strategy::HybridShard, 1));
  all.push_back({"full on each host", {.full_on_each_host = true}});
  all.push_back({"three buffers", {.buffers = 3, .prefetch = 2}});
  all.push_back(grouped(Strategy::ShardOptimizer, 2));
  return all;
}

Training training_of(const World& world) { return {.steps = 3, .micro_batches = 2 * world.size(), .clip = 0.05}; }

TEST(OnHosts, EveryStrategyGivesTheBitsOfOneProcess) {
  run_on_hosts({}, [](World& world) {
    for (const auto& kind : testing_models::model_kinds()) {
      Expected expected(kind.make, training_of(world));
      for (const Choice& choice : choices()) {
        SCOPED_TRACE(kind.name + ", " + choice.name);
        expect_same_bits(expected, world, choice.options);
      }
    }
  });
}

TEST(OnHosts, ShardGroupsOfSeveralHostsOfMany) {
  run_on_hosts(Hosts{4, 2}, [](World& world) {
    Expected expected([] { return make_gpt(); }, training_of(world));
    for (const Choice& choice : {grouped(Strategy::FullShard, 0), grouped(Strategy::HybridShard, 4)}) {
      SCOPED_TRACE(choice.name);
      expect_same_bits(expected, world, choice.options);
    }
  });
}

TEST(OnHosts, ShardGroupsOfPartsOfHosts) {
  run_on_hosts(Hosts{2, 3}, [](World& world) {
    expect_same_bits([] { return make_gpt(); }, world, training_of(world), grouped(Strategy::HybridShard, 2).options);
  });
}

TEST(OnHosts, SixteenBitsAreAddedUpInThirtyTwo) {
  run_on_hosts({}, [](World& world) {
    Training training = training_of(world);
    training.param_dtype = torch::kBFloat16;
    Expected expected([] { return make_gpt(); }, training);
    // The gradients that autograd makes are bf16 as well, so a wire of bf16 rounds nothing.
    for (auto wire : {torch::kBFloat16, torch::kFloat32}) {
      expect_same_bits(expected, world, {.mixed_precision = {.param_dtype = torch::kBFloat16, .reduce_dtype = wire}});
    }
  });
}

TEST(OnHosts, OneRankOnEachHost) {
  run_on_hosts(Hosts{3, 1}, [](World& world) {
    Expected expected([] { return make_gpt(); }, training_of(world));
    for (const Choice& choice : {grouped(Strategy::FullShard, 0), grouped(Strategy::NoShard, 0)}) {
      SCOPED_TRACE(choice.name);
      expect_same_bits(expected, world, choice.options);
    }
  });
}

// The sizes that docs/memory.md computes with, in elements.
struct Sizes {
  int64_t all = 0, largest = 0, largest_gradients = 0, largest_staging = 0;
};

Sizes sizes_of(ShardedModel& sharded, const World& world) {
  Sizes sizes;
  for (const auto& unit : sharded.model().units()) {
    const layout::GradientLayout& gradients = unit->sum.gradient_layout();
    sizes.all += unit->layout.full_numel();
    sizes.largest = std::max(sizes.largest, unit->layout.full_numel());
    sizes.largest_gradients = std::max(sizes.largest_gradients, gradients.full_numel());
    // The slices of the rank's counterparts on the other hosts.
    int64_t staging = -gradients.slice_of(world.rank()).numel();
    for (int rank = world.local_rank(); rank < world.size(); rank += world.local_size())
      staging += gradients.slice_of(rank).numel();
    sizes.largest_staging = std::max(sizes.largest_staging, staging);
  }
  return sizes;
}

void expect_memory(World& world, const Choice& choice, int64_t shards) {
  SCOPED_TRACE(choice.name);
  auto model = testing_models::model_kinds()[1].make();  // no tied parameters
  auto sharded = shard(*model.module, world, choice.options);
  AdamW optimizer(sharded);
  for (int step = 0; step < 3; ++step) {
    model.loss(world.rank()).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  const Sizes sizes = sizes_of(sharded, world);
  const MemoryReport memory = sharded.memory();
  EXPECT_EQ(memory.parameter_bytes, 4 * sizes.all / shards);
  const bool fetches = shards > world.local_size();
  const bool keeps = choice.options.strategy != Strategy::FullShard || choice.options.full_on_each_host;
  const int64_t kept = fetches ? 4 * (sizes.all / world.local_size() - sizes.all / shards) : 0;
  const int64_t buffers = world.local_rank() == 0 ? 4 * choice.options.buffers * sizes.largest : 0;
  EXPECT_EQ(memory.full_parameter_bytes, keeps ? kept : buffers);
  EXPECT_EQ(memory.full_gradient_bytes, 2 * 4 * (sizes.largest_gradients + sizes.largest_staging));
}

TEST(OnHosts, MemoryFollowsTheFormula) {
  run_on_hosts({}, [](World& world) {
    expect_memory(world, grouped(Strategy::FullShard, 0), 4);
    expect_memory(world, {"three buffers", {.buffers = 3, .prefetch = 2}}, 4);
    expect_memory(world, {"full on each host", {.full_on_each_host = true}}, 4);
    expect_memory(world, grouped(Strategy::ShardGradOp, 0), 4);
    expect_memory(world, grouped(Strategy::ShardOptimizer, 0), 4);
    expect_memory(world, grouped(Strategy::HybridShard, 0), 2);
    expect_memory(world, grouped(Strategy::NoShard, 0), 1);
  });
}

TEST(OnHosts, ARankThatIsKilledInAStepIsNamedOnEveryRank) {
  const auto train = [](World& world) {
    const auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded);
    for (int step = 0;; ++step) {
      model.loss(step).backward();
      if (step == 3 && world.rank() == 2) raise(SIGKILL);
      optimizer.step();
      optimizer.zero_grad();
    }
  };
  const auto results = testing::run_on_hosts_to_end({}, train, testing::patient_options());
  EXPECT_EQ(results[2].exit_code, 128 + SIGKILL);
  for (int rank : {0, 1, 3}) {
    EXPECT_EQ(results[rank].exit_code, 1);
    EXPECT_THAT(results[rank].output, HasSubstr("rank 2"));
  }
}

}  // namespace
}  // namespace fsdp
