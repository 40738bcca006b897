// Random numbers of a micro-batch depend on its number, and on nothing else.
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <tuple>
#include <vector>

#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;

std::vector<int64_t> drawn(uint64_t seed, int64_t step, int64_t micro_batch) {
  seed_micro_batch(seed, step, micro_batch);
  const torch::Tensor numbers = torch::randint(std::numeric_limits<int64_t>::max(), {4});
  return {numbers.const_data_ptr<int64_t>(), numbers.const_data_ptr<int64_t>() + numbers.numel()};
}

TEST(SeedMicroBatch, GivesTheSameNumbersAgainWhateverWasDrawnBefore) {
  const auto first = drawn(1, 2, 3);
  torch::randn({5});  // an odd count: of normal numbers every other one is kept for the next call
  EXPECT_EQ(drawn(1, 2, 3), first);
  seed_micro_batch(1, 2, 3);
  const torch::Tensor normal = torch::randn({5});
  seed_micro_batch(1, 2, 3);
  EXPECT_TRUE(torch::equal(torch::randn({5}), normal));
}

// Seeds that differ in their upper 32 bits alone, too, which torch::manual_seed does not tell apart on the CPU.
TEST(SeedMicroBatch, GivesOthersForEachOfTheThreeNumbers) {
  std::set<std::vector<int64_t>> all;
  const std::vector<uint64_t> seeds = {0, 1, 2, uint64_t{1} << 32, uint64_t{1} << 63};
  for (const uint64_t seed : seeds) {
    for (int64_t step = 0; step < 10; ++step) {
      for (int64_t micro_batch = 0; micro_batch < 10; ++micro_batch) all.insert(drawn(seed, step, micro_batch));
    }
  }
  EXPECT_EQ(all.size(), seeds.size() * 100);
}

TEST(SeedMicroBatch, DrawsEvenly) {
  seed_micro_batch(1, 1, 0);
  constexpr int64_t kNumbers = 1 << 20, kBins = 1 << 8;
  const torch::Tensor counts = torch::histc(torch::rand({kNumbers}), kBins, 0, 1);
  const double expected = kNumbers / kBins;
  // The sum of squares is about chi-square of 255 degrees of freedom, which is beyond 360 once in 100,000 times.
  EXPECT_LT(((counts - expected).pow(2) / expected).sum().item<double>(), 360);
}

TEST(SeedMicroBatch, IsRestoredByAGeneratorsState) {
  seed_micro_batch(7, 1, 1);
  auto generator = at::detail::getDefaultCPUGenerator();
  const torch::Tensor state = generator.get_state();
  const torch::Tensor numbers = torch::rand({700});  // more than the generator makes at a time
  generator.set_state(state);
  EXPECT_TRUE(torch::equal(torch::rand({700}), numbers));
}

struct NoisyNetImpl : torch::nn::Module {
  NoisyNetImpl() : layer(register_module("layer", torch::nn::Linear(6, 6))) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::dropout(layer(x), 0.5, is_training()); }
  torch::nn::Linear layer;
};
TORCH_MODULE(NoisyNet);

// Two steps of four micro-batches with dropout; the weights at the end.
torch::Tensor trained(World& world) {
  torch::manual_seed(1);
  NoisyNet net;
  auto sharded = shard(*net, world);
  SGD optimizer(sharded, {.lr = 0.1});
  sharded.set_gradient_divisor(4);
  for (int64_t step = 1; step <= 2; ++step) {
    for (int64_t round = 0; round < 4 / world.size(); ++round) {
      const int64_t number = round * world.size() + world.rank();
      const torch::Tensor input = torch::arange(12, torch::kFloat).view({2, 6}) * static_cast<double>(number + 1) / 40;
      seed_micro_batch(5, step, number);
      net->forward(input).sum().backward();
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  return sharded.full_state()[0].second.clone();
}

TEST(SeedMicroBatch, MakesAStepTheSameOnAnyNumberOfRanks) {
  const ScratchDirectory scratch;
  const std::string file = (scratch.path() / "weights.pt").string();
  run_ranks(1, [&](World& world) { torch::save(trained(world), file); });
  for (const int ranks : {2, 4}) {
    run_ranks(ranks, [&](World& world) {
      torch::Tensor expected;
      torch::load(expected, file);
      EXPECT_TRUE(torch::equal(trained(world), expected));
    });
  }
}

}  // namespace
}  // namespace fsdp
