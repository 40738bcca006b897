// The activations in MemoryReport, to the byte.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <numeric>
#include <utility>
#include <vector>

#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
namespace nn = torch::nn;

constexpr int64_t kFloat = 4, kRows = 2;

// Rows of 8 -> 16 -> 4.
nn::Sequential make_layers() { return nn::Sequential(nn::Linear(8, 16), nn::GELU(), nn::Linear(16, 4)); }
Options a_unit_per_layer() { return {.units = units_of<nn::LinearImpl>()}; }
torch::Tensor loss_of(nn::Sequential& layers) { return layers->forward(torch::ones({kRows, 8})).square().sum(); }

// By unit, at the peak: the input and the first layer's result; what GELU makes of it, and the result of all.
constexpr int64_t kOfFirst = kRows * (8 + 16) * kFloat, kOfSecond = kRows * (16 + 4) * kFloat;

std::vector<std::pair<int64_t, int64_t>> activations_of(const ShardedModel& sharded) {
  std::vector<std::pair<int64_t, int64_t>> units;
  for (const UnitActivations& unit : sharded.memory().activations) units.emplace_back(unit.bytes, unit.peak_bytes);
  return units;
}

TEST(Activations, AreCountedByUnit) {
  for (int ranks : {1, 2}) {
    run_ranks(ranks, [](World& world) {
      nn::Sequential layers = make_layers();
      auto sharded = shard(*layers, world, a_unit_per_layer());
      EXPECT_THAT(activations_of(sharded), ElementsAre(Pair(0, 0), Pair(0, 0)));
      torch::Tensor loss = loss_of(layers);
      EXPECT_THAT(activations_of(sharded), ElementsAre(Pair(kOfFirst, kOfFirst), Pair(kOfSecond, kOfSecond)));
      EXPECT_EQ(sharded.memory().activation_bytes, kOfFirst + kOfSecond);
      loss.backward();
      EXPECT_THAT(activations_of(sharded), ElementsAre(Pair(0, kOfFirst), Pair(0, kOfSecond)));
      EXPECT_EQ(sharded.memory().peak_activation_bytes, kOfFirst + kOfSecond);
      sharded.reset_peak_memory();
      EXPECT_EQ(sharded.memory().peak_activation_bytes, 0);
      EXPECT_EQ(sharded.memory().activations.front().unit, sharded.units().front().name);
    });
  }
}

TEST(Activations, AreThoseOfEveryGraphThatIsThere) {
  run_ranks(1, [](World& world) {
    nn::Sequential layers = make_layers();
    auto sharded = shard(*layers, world, a_unit_per_layer());
    torch::Tensor first = loss_of(layers), second = loss_of(layers);
    EXPECT_EQ(sharded.memory().activation_bytes, 2 * (kOfFirst + kOfSecond));
    first.backward({}, /*retain_graph=*/true);
    EXPECT_EQ(sharded.memory().activation_bytes, 2 * (kOfFirst + kOfSecond));
    first.reset();
    second.reset();  // without a backward
    EXPECT_EQ(sharded.memory().activation_bytes, 0);
    const torch::NoGradGuard no_grad;
    const torch::Tensor evaluated = loss_of(layers);
    EXPECT_EQ(sharded.memory().activation_bytes, 0);
  });
}

// From its first touch to the end of the backward, and not while another model is used.
TEST(Activations, AreThoseOfTheModelInUse) {
  run_ranks(1, [](World& world) {
    nn::Sequential layers = make_layers(), others = make_layers();
    auto sharded = shard(*layers, world, a_unit_per_layer());
    {
      auto sharded_others = shard(*others, world, a_unit_per_layer());
      const torch::Tensor before = torch::ones({64}, torch::requires_grad()).square();
      const torch::Tensor loss = loss_of(layers), loss_of_others = loss_of(others);
      EXPECT_EQ(sharded.memory().activation_bytes, kOfFirst + kOfSecond);
      EXPECT_EQ(sharded_others.memory().activation_bytes, kOfFirst + kOfSecond);
      (loss + loss_of_others).backward();
      const torch::Tensor after = torch::ones({64}, torch::requires_grad()).square();
      EXPECT_EQ(sharded.memory().activation_bytes + sharded_others.memory().activation_bytes, 0);
    }
    loss_of(layers).backward();
    EXPECT_EQ(sharded.memory().peak_activation_bytes, kOfFirst + kOfSecond);
  });
}

TEST(Activations, AreThoseOfTheParametersDtype) {
  run_ranks(2, [](World& world) {
    nn::Sequential layers = make_layers();
    auto sharded = shard(*layers, world,
                         {.units = units_of<nn::LinearImpl>(), .mixed_precision = {.param_dtype = torch::kBFloat16}});
    const torch::Tensor loss = loss_of(layers);
    EXPECT_EQ(sharded.memory().activation_bytes, (kOfFirst + kOfSecond) / 2);
  });
}

TEST(Activations, MustNotBeWrittenInPlace) {
  run_ranks(1, [](World& world) {
    nn::Sequential layers = make_layers();
    auto sharded = shard(*layers, world, a_unit_per_layer());
    const torch::Tensor result = layers->forward(torch::ones({kRows, 8}));
    const torch::Tensor loss = result.square().sum();
    result.detach().mul_(2);
    EXPECT_THAT(message_of([&] { loss.backward(); }), HasSubstr("has been modified by an inplace operation"));
  });
}

int64_t sum_of(const KeptStorages& storages) { return std::accumulate(storages.begin(), storages.end(), int64_t{0}); }

TEST(Activations, AreForeseen) {
  run_ranks(1, [](World& world) {
    nn::Sequential layers = make_layers();
    const auto before = preview_activations(*layers, [&] { return loss_of(layers); });
    EXPECT_THAT(before.back(),
                ElementsAre(kRows * 16 * kFloat, kRows * 16 * kFloat, kRows * 8 * kFloat, kRows * 4 * kFloat));
    const auto with_backward = preview_activations(*layers, [&] {
      torch::Tensor loss = loss_of(layers);
      loss.backward();
      return loss;
    });
    EXPECT_EQ(with_backward, before);
    auto sharded = shard(*layers, world, a_unit_per_layer());
    EXPECT_EQ(preview_activations(*layers, [&] { return loss_of(layers); }), before);
    const auto gpt = testing_models::make_gpt();
    const auto foreseen = preview_activations(*gpt.module, [&] { return gpt.loss(0); });
    auto sharded_gpt = shard(*gpt.module, world);
    const torch::Tensor loss = gpt.loss(0);
    EXPECT_EQ(sharded_gpt.memory().activation_bytes, sum_of(foreseen.back()));
  });
}

}  // namespace
}  // namespace fsdp
