// Whatever the model, the units and the ranks: after 5 steps of AdamW the weights have the bits of one plain process.
//
// FSDP_PROPERTY_SEED=<seed> runs one case alone; there are as many seeds as one likes, the first of them are the test.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <numeric>
#include <optional>

#include "property/random_case.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"
#include "support/variable.h"

namespace fsdp::property {
namespace {

using fsdp::testing::run_ranks;

std::vector<uint64_t> seeds_for(int ranks, const std::string& backend) {
  std::vector<uint64_t> seeds(number_of_cases());
  std::iota(seeds.begin(), seeds.end(), 0);
  if (const char* wanted = std::getenv("FSDP_PROPERTY_SEED")) seeds = {std::strtoull(wanted, nullptr, 10)};
  std::erase_if(seeds, [&](uint64_t seed) { return cell_of(seed).ranks != ranks || cell_of(seed).backend != backend; });
  return seeds;
}

void check(const RandomCase& drawn, World& world) {
  const auto& model = drawn.make(world.rank()).model;
  auto sharded = shard(*model.module, world, drawn.options);
  testing_models::train(model, sharded, world, drawn.training);
  EXPECT_EQ(sharded.communication().late_gradients, 0);
  const auto found = testing_models::whole_weights(*model.module, sharded);
  if (world.rank() != 0) return;
  const auto expected = testing_models::train_unsharded(drawn.make_unsharded().model, drawn.training);
  for (const auto& [name, weight] : expected) EXPECT_TRUE(weight.isfinite().all().item<bool>()) << name;
  EXPECT_THAT(testing_models::differences(expected, found), ::testing::IsEmpty());
}

void check_all(World& world, const std::string& backend) {
  for (uint64_t seed : seeds_for(world.size(), backend)) {
    const RandomCase drawn = make_random_case(seed);
    const std::string words = fmt::format("FSDP_PROPERTY_SEED={}: {}", seed, drawn.words);
    if (world.rank() == 0) std::printf("%s\n", words.c_str());  // the last one, if the process does not come to the end
    SCOPED_TRACE(words);
    try {
      check(drawn, world);
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("{}\n{}", words, error.what()));
    }
  }
}

class Property : public ::testing::TestWithParam<int> {};

TEST_P(Property, RandomModelsEndWithTheBitsOfOneProcess) {
  constexpr std::chrono::seconds kTimeout{60};
  for (const std::string& backend : backends_of(GetParam())) {
    const auto body = [&](World& world) { check_all(world, backend); };
    if (backend == kSeveralHosts) {
      const testing::Hosts hosts = GetParam() == 4 ? testing::Hosts{2, 2} : testing::Hosts{GetParam(), 1};
      testing::run_on_hosts(hosts, body, {.timeout = kTimeout});
      continue;
    }
    std::optional<testing::CopyingGathers> copying;
    if (backend == kShmByCopies) copying.emplace();
    run_ranks(GetParam(), body, {.backend = backend == kShmByCopies ? "shm" : backend, .timeout = kTimeout});
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Property, ::testing::Values(1, 2, 3, 4), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace fsdp::property
