#include "property/random_case.h"

#include <fmt/format.h>

#include <numeric>

namespace fsdp::property {

namespace {

struct Sharding {
  Strategy strategy;
  const char* name;
};
struct Precision {
  std::optional<torch::ScalarType> dtype;  // of full parameters and floating buffers
  const char* name;
};

// What the cases draw from. A line here puts a strategy or a dtype under test.
const std::vector<Sharding> kShardings = {
    {Strategy::FullShard, "FullShard"},           {Strategy::ShardGradOp, "ShardGradOp"},
    {Strategy::ShardOptimizer, "ShardOptimizer"}, {Strategy::NoShard, "NoShard"},
    {Strategy::HybridShard, "HybridShard"},       {Strategy::HybridShardGradOp, "HybridShardGradOp"},
};
const std::vector<Precision> kPrecisions = {
    {std::nullopt, "fp32"},
    {torch::kBFloat16, "bf16"},
};

struct Policy {
  UnitPolicy units;
  std::string name;
};

Policy random_policy(RandomSource& random) {
  const int64_t numel = random.between(1, 600);
  return random.among<Policy>({
      {units_automatic(), "automatic units"},
      {units_by_size(numel), fmt::format("units of at least {} elements", numel)},
      {units_of<Block>(), "units of blocks"},
      {units_of<Layer>(), "units of layers"},
      {units_of<torch::nn::LinearImpl, torch::nn::EmbeddingImpl, torch::nn::LSTMImpl>(), "units of linears and lstms"},
      {units_by([](const auto&...) { return true; }), "every module a unit"},
  });
}

// Any that divides the world.
int random_group_size(RandomSource& random, int ranks) {
  std::vector<int> sizes(static_cast<size_t>(ranks));
  std::iota(sizes.begin(), sizes.end(), 1);
  std::erase_if(sizes, [&](int size) { return ranks % size != 0; });
  return random.among(sizes);
}

}  // namespace

RandomCase make_random_case(uint64_t seed) {
  RandomSource random(~seed);  // other numbers than the model's
  const int ranks = ranks_of(seed);
  const int64_t accumulation = random.between(1, 3);
  const Policy policy = random_policy(random);
  RandomCase drawn{.seed = seed};
  drawn.training = {.steps = 5, .micro_batches = ranks * accumulation, .clip = random.one_in(2) ? 0.05 : 0};
  drawn.options.units = policy.units;
  drawn.options.buffers = static_cast<int>(random.between(2, 4));
  drawn.options.prefetch = static_cast<int>(random.between(0, 2));
  const Precision& precision = random.among(kPrecisions);
  drawn.training.param_dtype = precision.dtype;
  drawn.options.mixed_precision = {.param_dtype = precision.dtype, .buffer_dtype = precision.dtype};
  const Sharding& sharding = random.among(kShardings);
  drawn.options.strategy = sharding.strategy;
  const bool hybrid = sharding.strategy == Strategy::HybridShard || sharding.strategy == Strategy::HybridShardGradOp;
  if (hybrid) drawn.options.shard_group_size = random_group_size(random, ranks);
  drawn.words =
      fmt::format("{} in {}, {} ranks in groups of {}, {} micro-batches each, clip {}, {} buffers, prefetch {}, {}; {}",
                  sharding.name, precision.name, ranks, hybrid ? drawn.options.shard_group_size : ranks, accumulation,
                  drawn.training.clip, drawn.options.buffers, drawn.options.prefetch, policy.name, drawn.make(0).words);
  return drawn;
}

}  // namespace fsdp::property
