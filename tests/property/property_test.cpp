// Whatever the model, the units and the ranks: after 5 steps of AdamW the weights have the bits of one plain process.
//
// FSDP_PROPERTY_SEED=<seed> runs one case alone, and FSDP_PROPERTY_SEED=1000-1999 those of a range; there are as many
// seeds as one likes, the first of them are the test.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "api/shard_over.h"
#include "collectives/backends.h"
#include "property/random_case.h"
#include "property/seeds.h"
#include "support/drawn.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/train_sharded.h"
#include "support/variable.h"
#include "world/state.h"

namespace fsdp::property {
namespace {

using fsdp::testing::run_ranks;

std::vector<uint64_t> seeds_for(int ranks, const std::string& backend) {
  std::vector<uint64_t> seeds = tried_seeds(number_of_cases(), pairwise_seeds(testing::seed()));
  std::erase_if(seeds, [&](uint64_t seed) { return cell_of(seed).ranks != ranks || cell_of(seed).backend != backend; });
  return seeds;
}

ShardedModel shard_over_backend(const std::string& backend, torch::nn::Module& module, World& world,
                                const Options& options) {
  if (backend != kStaged && backend != kHostShards) return shard(module, world, options);
  const auto make_group = [&] {
    auto inner = world.state()->new_group();
    return backend == kStaged ? collectives::make_staged_group(std::move(inner), torch::kCPU)
                              : collectives::make_host_shard_group(std::move(inner), torch::kCPU);
  };
  return shard_over(make_group, module, world, options);
}

void check(const RandomCase& drawn, World& world, const std::filesystem::path& folder) {
  const auto make = [&] { return drawn.make_on_ranks(world.rank()).model; };
  const testing_models::TestModel model = drawn.deferred ? deferred_init(make) : make();
  Options options = drawn.options;
  options.offload = drawn.offload.value_or(Offload::Nothing);
  options.offload_activations = drawn.offloads_activations;
  options.offload_activations_from = 0;
  if (drawn.offload || drawn.offloads_activations) options.offload_directory = folder;
  auto sharded = shard_over_backend(cell_of(drawn.seed).backend, *model.module, world, options);
  testing_models::train(model, sharded, world, drawn.training);
  EXPECT_EQ(sharded.communication().late_gradients, 0);
  const auto found = testing_models::whole_weights(*model.module, sharded);
  if (world.rank() != 0) return;
  const auto expected = testing_models::train_unsharded(drawn.make_unsharded().model, drawn.training);
  for (const auto& [name, weight] : expected) EXPECT_TRUE(weight.isfinite().all().item<bool>()) << name;
  EXPECT_THAT(testing_models::differences(expected, found), ::testing::IsEmpty());
}

void check_all(World& world, const std::string& backend, const std::filesystem::path& folder) {
  for (uint64_t seed : seeds_for(world.size(), backend)) {
    const RandomCase drawn = make_random_case(seed);
    const std::string words = fmt::format("FSDP_PROPERTY_SEED={}: {}", seed, drawn.words);
    if (world.rank() == 0) std::printf("%s\n", words.c_str());  // the last one, if the process does not come to the end
    SCOPED_TRACE(words);
    try {
      check(drawn, world, folder);
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("{}\n{}", words, error.what()));
    }
  }
}

using RanksAndBackend = std::pair<int, std::string>;

std::vector<RanksAndBackend> all_ranks_and_backends() {
  std::vector<RanksAndBackend> all;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const std::string& backend : backends_of(ranks)) all.emplace_back(ranks, backend);
  }
  return all;
}

std::string name_of(const RanksAndBackend& parameter) {
  std::string name = fmt::format("{}_{}", parameter.first, parameter.second);
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

class Property : public ::testing::TestWithParam<RanksAndBackend> {};

TEST_P(Property, RandomModelsEndWithTheBitsOfOneProcess) {
  constexpr std::chrono::seconds kTimeout{60};
  const auto& [ranks, backend] = GetParam();
  if (seeds_for(ranks, backend).empty()) return;  // the run tries no case of them
  const testing::ScratchDirectory scratch;
  const auto body = [&](World& world) { check_all(world, GetParam().second, scratch.path()); };
  if (backend == kSeveralHosts) {
    const testing::Hosts hosts = ranks == 4 ? testing::Hosts{2, 2} : testing::Hosts{ranks, 1};
    return testing::run_on_hosts(hosts, body, {.timeout = kTimeout});
  }
  std::optional<testing::CopyingGathers> copying;
  if (backend == kShmByCopies) copying.emplace();
  const bool over_shm = backend == kShmByCopies || backend == kStaged || backend == kHostShards;
  run_ranks(ranks, body, {.backend = over_shm ? "shm" : backend, .timeout = kTimeout});
}

INSTANTIATE_TEST_SUITE_P(Ranks, Property, ::testing::ValuesIn(all_ranks_and_backends()),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace fsdp::property
