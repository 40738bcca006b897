// ActivationCheckpointOptions::keeps on ranks: blocks that keep the results of the operators that a function names.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/budgeted_net.h"
#include "support/drawn.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp::kept_operators {
namespace {

using activation_budgets::blocks_as_units;
using activation_budgets::GptBlockImpl;
using activation_budgets::kWidth;
using activation_budgets::LlamaBlockImpl;
using activation_budgets::make_net;
using activation_budgets::Net;
using activation_budgets::NetOptions;
using fsdp::testing::drawn;
using fsdp::testing::Job;
using fsdp::testing::run_ranks;
using ::testing::IsEmpty;
using testing_models::TestModel;
using testing_models::Training;
using torch::Tensor;

using Keeps = std::function<bool(std::string_view name)>;

const std::map<std::string, Keeps>& policies() {
  static const std::map<std::string, Keeps> all{
      {"Nothing", [](std::string_view) { return false; }},
      {"Activations", [](std::string_view name) { return name == "aten::gelu" || name == "aten::silu"; }},
      {"NormsAndActivations",
       [](std::string_view name) {
         return name == "aten::native_layer_norm" || name == "aten::rsqrt" || name == "aten::gelu" ||
                name == "aten::silu";
       }},
      {"Products", [](std::string_view name) { return name == "aten::mm" || name == "aten::addmm"; }},
      {"Everything", [](std::string_view) { return true; }}};
  return all;
}

std::shared_ptr<Net> net_that_keeps(const Keeps& keeps, const NetOptions& with) {
  const auto net = make_net(with);
  for (const auto& block : *net->blocks) {
    dynamic_cast<RecomputedModule&>(*block).set_recomputation({.keep = KeptResults::Products, .keeps = keeps});
  }
  return net;
}

class KeptOperators : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(Of, KeptOperators, drawn<Job>({{3, "shm"}, {2, "gloo"}}, {{1, "shm"}, {2, "shm"}}),
                         ::testing::PrintToStringParamName());

// In bf16 with one strategy: what is kept does not depend on both.
void expect_no_bit_changed(const std::vector<std::string>& names, World& world) {
  for (const bool llama : {false, true}) {
    for (const bool is_bf16 : {false, true}) {
      Training training{.steps = 2, .micro_batches = 2 * world.size(), .clip = 0.5};
      if (is_bf16) training.param_dtype = torch::kBFloat16;
      const auto expected = testing_models::train_unsharded(
          activation_budgets::test_model({.llama = llama, .recomputed = false}), training);
      for (auto [strategy, options] : testing_models::every_strategy(world.size())) {
        if (is_bf16 && strategy != "FullShard") continue;
        options.units = blocks_as_units();
        options.mixed_precision.param_dtype = training.param_dtype;
        for (const std::string& name : names) {
          const auto net = net_that_keeps(policies().at(name), {.llama = llama});
          auto sharded = shard(*net, world, options);
          const TestModel model{net, [net](int64_t b) { return activation_budgets::loss_of(*net, b); }};
          testing_models::train(model, sharded, world, training);
          EXPECT_THAT(testing_models::differences(expected, testing_models::whole_weights(*net, sharded)), IsEmpty())
              << (llama ? "Llama, " : "GPT, ") << name << ", " << strategy << (is_bf16 ? ", bf16" : "");
          EXPECT_EQ(sharded.communication().late_gradients, 0);
        }
      }
    }
  }
}

TEST_P(KeptOperators, ChangeNoBit) {
  run_ranks(GetParam(), [](World& world) {
    expect_no_bit_changed({"Nothing", "Activations", "NormsAndActivations", "Products"}, world);
  });
}

// The library's own operators, such as those of messages between ranks, are none of the function's.
TEST_P(KeptOperators, ChangeNoBitWhereAllAreNamed) {
  run_ranks(GetParam(), [](World& world) { expect_no_bit_changed({"Everything"}, world); });
}

// At the end of a forward, with the loss.
int64_t activation_bytes(Net& net, World& world) {
  auto sharded = shard(net, world, {.units = blocks_as_units()});
  const Tensor loss = activation_budgets::loss_of(net, world.rank());
  const int64_t bytes = sharded.memory().activation_bytes;
  loss.backward();
  EXPECT_EQ(sharded.memory().activation_bytes, 0);
  return bytes;
}

// A gelu's result in a GPT's block has four widths, a silu's in a Llama's has three. A Llama's norm is made of others,
// among them rsqrt.
TEST(KeptOperatorsMemory, IsThatOfTheResultsWithThoseNames) {
  run_ranks(2, [](World& world) {
    for (const bool llama : {false, true}) {
      const auto kept = [&](const char* name) {
        return activation_bytes(*net_that_keeps(policies().at(name), {.llama = llama}), world);
      };
      const int64_t inputs = activation_bytes(*make_net({.llama = llama}), world);
      const int64_t all = activation_bytes(*make_net({.llama = llama, .recomputed = false}), world);
      const int64_t of_width = NetOptions().blocks * 2 * activation_budgets::kLength * kWidth * 4;
      EXPECT_EQ(kept("Nothing"), inputs);
      EXPECT_EQ(kept("Activations"), inputs + (llama ? 3 : 4) * of_width);
      EXPECT_GT(kept("NormsAndActivations"), kept("Activations"));
      for (const char* name : {"Activations", "NormsAndActivations", "Products"}) {
        EXPECT_GT(kept(name), inputs) << name;
        EXPECT_LT(kept(name), all) << name;
      }
    }
  });
}

}  // namespace
}  // namespace fsdp::kept_operators
