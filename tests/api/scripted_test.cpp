// Scripted modules: which units they have, and the bits of the same module unsharded.
#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <torch/script.h>

#include <algorithm>

#include "engine/model.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using ::testing::ElementsAre;
using torch::Tensor;

constexpr int64_t kBlocks = 3, kWidth = 15;

torch::jit::Module make_block() {
  torch::jit::Module block("Block");
  block.register_parameter("weight", torch::randn({kWidth, kWidth}, torch::requires_grad()), false);
  block.register_parameter("bias", torch::randn({kWidth}, torch::requires_grad()), false);
  block.define("def forward(self, x):\n  return x + torch.tanh(torch.linear(x, self.weight, self.bias)) * 0.5\n");
  return block;
}

// Blocks in a list, and a head that is tied to the weight of the input.
torch::jit::Module make_model() {
  torch::manual_seed(14);
  torch::jit::Module blocks("ModuleList"), model("Model");
  for (int64_t i = 0; i < kBlocks; ++i) blocks.register_module(std::to_string(i), make_block());
  model.register_module("blocks", blocks);
  const Tensor tied = torch::randn({7, kWidth}, torch::requires_grad());
  model.register_parameter("input", tied, false);
  model.register_parameter("head", tied, false);
  std::string text = "def forward(self, tokens):\n  x = torch.embedding(self.input, tokens)\n";
  for (int64_t i = 0; i < kBlocks; ++i) text += fmt::format("  x = getattr(self.blocks, \"{}\").forward(x)\n", i);
  model.define(text + "  return torch.linear(x, self.head).pow(2).mean()\n");
  return model;
}

Tensor loss(torch::jit::Module& model, int64_t micro_batch) {
  const auto generator = torch::make_generator<at::CPUGeneratorImpl>(micro_batch);
  return model.forward({torch::randint(0, 7, {4, 5}, generator, torch::kInt64)}).toTensor();
}

std::vector<std::string> units_of_model(const ShardedModel& sharded) {
  std::vector<std::string> names;
  for (const auto& unit : sharded.model().units()) names.push_back(unit->name);
  return names;
}

// The same tensors under names that a native module may have.
testing_models::TestModel trainable(torch::jit::Module& model) {
  auto holder = std::make_shared<torch::nn::Module>();
  for (const auto& parameter : model.named_parameters()) {
    std::string name = parameter.name;
    std::replace(name.begin(), name.end(), '.', '_');
    holder->register_parameter(name, parameter.value, parameter.value.requires_grad());
  }
  return {holder, [&model](int64_t b) { return loss(model, b); }};
}

// TorchScript compiles a module anew once it has seen it run: only then does each backward go the same way.
void warm_up(torch::jit::Module& model) {
  for (int64_t run = 0; run < 3; ++run) loss(model, 100 + run).backward();
}

TEST(Scripted, BlocksOfAListAreUnitsAndATiedParameterGoesWhereItComesFirst) {
  run_ranks(1, [](World& world) {
    auto model = make_model();
    auto sharded = shard(model, world);
    EXPECT_THAT(units_of_model(sharded), ElementsAre("root", "blocks.0", "blocks.1", "blocks.2"));
    std::vector<std::string> names;
    for (const auto& parameter : sharded.parameters()) names.push_back(parameter.name);
    EXPECT_THAT(names, ElementsAre("input", "blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias",
                                   "blocks.2.weight", "blocks.2.bias"));
  });
}

TEST(Scripted, PoliciesSeeTheNamesOfItsClasses) {
  run_ranks(1, [](World& world) {
    auto model = make_model();
    const auto policy = units_by([](const std::string& name, const torch::nn::Module& module) {
      return module.name() == "Block" && name != "blocks.1";
    });
    auto sharded = shard(model, world, {.units = policy});
    EXPECT_THAT(units_of_model(sharded), ElementsAre("root", "blocks.0", "blocks.2"));
  });
}

TEST(Scripted, BlocksThatAreNotAllOfOneClassAreNoUnits) {
  run_ranks(1, [](World& world) {
    auto model = make_model();
    torch::jit::Module other("Other");
    other.register_parameter("weight", torch::ones({3}), false);
    model.attr("blocks").toModule().register_module("3", other);
    auto sharded = shard(model, world);
    EXPECT_THAT(units_of_model(sharded), ElementsAre("root"));
  });
}

TEST(Scripted, HasTheBitsOfTheSameModuleUnsharded) {
  run_ranks(2, [](World& world) {
    const testing_models::Training training{.steps = 3, .micro_batches = 2, .clip = 0.1};
    auto model = make_model(), plain = make_model();
    const auto trained = trainable(model);
    auto sharded = shard(model, world);
    warm_up(model);
    sharded.zero_grad();
    const CommunicationReport before = sharded.communication();
    testing_models::train(trained, sharded, world, training);
    const CommunicationReport after = sharded.communication();
    // The tied parameter is gathered at both ends of the forward, the last block is still there in the backward.
    EXPECT_EQ(after.gathers - before.gathers, training.steps * (2 * kBlocks + 1));
    EXPECT_EQ(after.foreseen_gathers - before.foreseen_gathers, after.gathers - before.gathers);
    EXPECT_EQ(after.reductions - before.reductions, training.steps * (kBlocks + 1));
    EXPECT_EQ(after.late_gradients, before.late_gradients);
    warm_up(plain);
    const auto found = testing_models::whole_weights(*trained.module, sharded);
    const auto expected = testing_models::train_unsharded(trainable(plain), training);
    EXPECT_THAT(testing_models::differences(expected, found), ::testing::IsEmpty());
  });
}

}  // namespace
}  // namespace fsdp
