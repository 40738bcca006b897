// Options::activation_memory on ranks: no step takes more, and the bits are those of a process without it.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/train_sharded.h"

namespace fsdp::activation_budgets {
namespace {

using fsdp::testing::Job;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_models::TestModel;
using testing_models::Training;
using torch::Tensor;
namespace nn = torch::nn;

constexpr int64_t kLength = 6, kWidth = 16;

// As a GPT-2's: attention with one head and an MLP, with dropout in both.
struct GptBlockImpl : nn::Module {
  GptBlockImpl()
      : norm(register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth})))),
        qkv(register_module("qkv", nn::Linear(kWidth, 3 * kWidth))),
        up(register_module("up", nn::Linear(kWidth, 4 * kWidth))),
        down(register_module("down", nn::Linear(4 * kWidth, kWidth))) {}

  Tensor forward(const Tensor& input) {
    const auto parts = qkv(norm(input)).unsqueeze(1).chunk(3, -1);
    const Tensor mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true).squeeze(1);
    const Tensor x = input + torch::dropout(mixed, 0.2, is_training());
    return x + torch::dropout(down(torch::gelu(up(x))), 0.2, is_training());
  }

  nn::LayerNorm norm;
  nn::Linear qkv, up, down;
};

// As a Llama's: RMSNorm, and a gate. `scale` is everybody's, as its tables for the rotation are.
struct LlamaBlockImpl : nn::Module {
  LlamaBlockImpl()
      : weight(register_parameter("weight", torch::ones({kWidth}))),
        gate(register_module("gate", nn::Linear(nn::LinearOptions(kWidth, 3 * kWidth).bias(false)))),
        up(register_module("up", nn::Linear(nn::LinearOptions(kWidth, 3 * kWidth).bias(false)))),
        down(register_module("down", nn::Linear(nn::LinearOptions(3 * kWidth, kWidth).bias(false)))) {}

  Tensor forward(const Tensor& input, const Tensor& scale) {
    const Tensor x = torch::rms_norm(input, {kWidth}, weight, 1e-5) * scale;
    return input + down(torch::silu(gate(x)) * up(x));
  }

  Tensor weight;
  nn::Linear gate, up, down;
};

struct NetOptions {
  int64_t blocks = 4;
  bool llama = false;
  bool recomputed = true;
  bool begins_with_block = false;
};

struct Net : nn::Module {
  explicit Net(const NetOptions& options) : with(options) {
    for (int64_t i = 0; i < with.blocks; ++i) {
      if (with.llama) {
        with.recomputed ? blocks->push_back(Recomputed<LlamaBlockImpl>())
                        : blocks->push_back(std::make_shared<LlamaBlockImpl>());
      } else {
        with.recomputed ? blocks->push_back(Recomputed<GptBlockImpl>())
                        : blocks->push_back(std::make_shared<GptBlockImpl>());
      }
    }
    register_module("blocks", blocks);
    first = register_module("first", nn::Linear(3, kWidth));
    head = register_module("head", nn::Linear(kWidth, 3));
  }

  template <typename Block, typename... Inputs>
  Tensor call(const std::shared_ptr<nn::Module>& block, const Inputs&... inputs) const {
    if (with.recomputed) return block->as<Recomputed<Block>>()->forward(inputs...);
    return block->as<Block>()->forward(inputs...);
  }
  Tensor forward(const Tensor& input) {
    Tensor x = with.begins_with_block ? input.repeat({1, 1, 6}).narrow(2, 0, kWidth).contiguous() : first(input);
    const Tensor scale = torch::full({kLength, kWidth}, 0.5);
    for (const auto& block : *blocks) {
      x = with.llama ? call<LlamaBlockImpl>(block, x, scale) : call<GptBlockImpl>(block, x);
    }
    return head(x).pow(2).mean();
  }

  NetOptions with;
  nn::ModuleList blocks;
  nn::Linear first{nullptr}, head{nullptr};
};

std::shared_ptr<Net> make_net(const NetOptions& options = {}) {
  torch::manual_seed(7);
  return std::make_shared<Net>(options);
}

Tensor loss_of(Net& net, int64_t micro_batch, int64_t rows = 2) {
  torch::manual_seed(100 + static_cast<uint64_t>(micro_batch));
  return net.forward(testing_models::values_for(micro_batch, {rows, kLength, 3}));
}

TestModel test_model(const NetOptions& options) {
  const auto net = make_net(options);
  return {net, [net](int64_t b) { return loss_of(*net, b); }};
}

UnitPolicy blocks_as_units() { return units_of<GptBlockImpl, LlamaBlockImpl>(); }

constexpr int64_t kPlenty = int64_t{1} << 40;

// What was decided in a few steps. A collective.
ActivationDecision decision_of(const NetOptions& net, World& world, Options options, const Training& training) {
  options.units = blocks_as_units();
  const TestModel model = test_model(net);
  auto sharded = shard(*model.module, world, options);
  testing_models::train(model, sharded, world, training);
  EXPECT_TRUE(sharded.activation_decision().has_value());
  return sharded.activation_decision().value_or(ActivationDecision());
}

int64_t least_of(const ActivationDecision& decision) { return std::ranges::max(decision.measured.peaks); }

// Some from the least that there can be to more than can be used.
std::vector<int64_t> budgets_between(int64_t least, int64_t most) {
  std::vector<int64_t> budgets;
  for (int i = 0; i <= 5; ++i) budgets.push_back(least + (most - least) * i / 5);
  budgets.push_back(most - 1);
  budgets.push_back(2 * most);
  return budgets;
}

class ActivationBudgets : public ::testing::TestWithParam<Job> {};

// Each strategy has the least budget and another: these take turns.
TEST_P(ActivationBudgets, AreNeverExceededAndChangeNoBit) {
  run_ranks(GetParam(), [](World& world) {
    size_t turn = world.size();
    const Training training{.steps = 3, .micro_batches = 2 * world.size(), .clip = 0.5};
    for (const bool llama : {false, true}) {
      const auto expected =
          testing_models::train_unsharded(test_model({.llama = llama, .recomputed = false}), training);
      for (auto [strategy, options] : testing_models::every_strategy(world.size())) {
        options.activation_memory = kPlenty;
        const ActivationDecision all = decision_of({.llama = llama}, world, options, training);
        EXPECT_THAT(all.plan.keep, Each(KeptResults::All));
        const std::vector<int64_t> budgets = budgets_between(least_of(all), all.plan.peak_bytes);
        for (const int64_t budget : {budgets.front(), budgets[++turn % budgets.size()]}) {
          SCOPED_TRACE(fmt::format("{}, {}, {} bytes", llama ? "Llama" : "GPT", strategy, budget));
          options.units = blocks_as_units();
          options.activation_memory = budget;
          const TestModel model = test_model({.llama = llama});
          auto sharded = shard(*model.module, world, options);
          testing_models::train(model, sharded, world, training);
          EXPECT_LE(sharded.memory().peak_activation_bytes, budget);
          EXPECT_LE(sharded.activation_decision().value().plan.peak_bytes, budget);
          EXPECT_THAT(testing_models::differences(expected, testing_models::whole_weights(*model.module, sharded)),
                      IsEmpty());
          EXPECT_EQ(sharded.communication().late_gradients, 0);
        }
      }
    }
  });
}

// Peaks are foreseen to the byte where blocks share nothing that they save.
TEST_P(ActivationBudgets, AreUsedAsPlanned) {
  run_ranks(GetParam(), [](World& world) {
    const Training training{.steps = 2, .micro_batches = world.size()};
    const ActivationDecision all = decision_of({}, world, {.activation_memory = kPlenty}, training);
    for (const int64_t budget : budgets_between(least_of(all), all.plan.peak_bytes)) {
      SCOPED_TRACE(budget);
      const auto net = make_net();
      auto sharded = shard(*net, world, {.units = blocks_as_units(), .activation_memory = budget});
      AdamW optimizer(sharded);
      for (int step = 0; step < 3; ++step) {
        sharded.reset_peak_memory();
        loss_of(*net, step * world.size() + world.rank()).backward();
        const int64_t planned = step == 0 ? least_of(all) : sharded.activation_decision().value().plan.peak_bytes;
        EXPECT_EQ(sharded.memory().peak_activation_bytes, planned) << "step " << step;
        EXPECT_EQ(sharded.memory().activation_bytes, 0);
        optimizer.step();
        optimizer.zero_grad();
      }
      const ActivationDecision decision = *sharded.activation_decision();
      EXPECT_EQ(decision.measured.peaks, all.measured.peaks);
      EXPECT_EQ(least_of(decision), least_of(all));
      for (const BudgetedBlock& block : decision.measured.blocks) {
        ASSERT_EQ(block.choices.size(), 3u);
        EXPECT_GT(block.choices[0].seconds, 0);
        EXPECT_LE(block.choices[1].seconds, block.choices[0].seconds);
        EXPECT_LT(block.choices[1].kept_bytes, block.choices[2].kept_bytes);
        EXPECT_EQ(block.choices[2].seconds, 0);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Of, ActivationBudgets,
                         ::testing::Values(Job{1, "shm"}, Job{2, "shm"}, Job{3, "shm"}, Job{2, "gloo"},
                                           Job{3, "gloo"}));

// A block that runs again uses its layers once more: the order in which units are gathered follows.
TEST(ActivationBudget, HoldsWhereUnitsAreSmallerThanBlocks) {
  run_ranks(Job{2, "gloo"}, [](World& world) {
    const Training training{.steps = 4, .micro_batches = world.size()};
    const auto expected = testing_models::train_unsharded(test_model({.recomputed = false}), training);
    const ActivationDecision all = decision_of({}, world, {.activation_memory = kPlenty}, training);
    for (const int64_t budget : budgets_between(least_of(all), all.plan.peak_bytes)) {
      SCOPED_TRACE(budget);
      const TestModel model = test_model({});
      auto sharded = shard(*model.module, world, {.units = units_of<nn::LinearImpl>(), .activation_memory = budget});
      testing_models::train(model, sharded, world, training);
      EXPECT_LE(sharded.memory().peak_activation_bytes, budget);
      EXPECT_THAT(testing_models::differences(expected, testing_models::whole_weights(*model.module, sharded)),
                  IsEmpty());
    }
  });
}

TEST(ActivationBudget, BelowTheLeastIsAnErrorThatNamesIt) {
  run_ranks(2, [](World& world) {
    const Training training{.steps = 2, .micro_batches = world.size()};
    const int64_t least = least_of(decision_of({}, world, {.activation_memory = kPlenty}, training));
    decision_of({}, world, {.activation_memory = least}, training);
    const auto net = make_net();
    auto sharded = shard(*net, world, {.units = blocks_as_units(), .activation_memory = least - 1});
    EXPECT_THAT(message_of<Error>([&] { loss_of(*net, world.rank()).backward(); }),
                HasSubstr(fmt::format("found a budget of {} bytes, expected at least {}", least - 1, least)));
  });
}

// The largest of any rank decides, for all.
TEST(ActivationBudget, IsForRanksWithBatchesOfDifferentSizes) {
  run_ranks(3, [](World& world) {
    const auto decided = [&](int64_t budget) {
      const auto net = make_net();
      auto sharded = shard(*net, world, {.units = blocks_as_units(), .activation_memory = budget});
      AdamW optimizer(sharded);
      for (int step = 0; step < 3; ++step) {
        loss_of(*net, step, /*rows=*/1 + world.rank()).backward();
        optimizer.step();
        optimizer.zero_grad();
      }
      EXPECT_LE(sharded.memory().peak_activation_bytes, budget);
      return *sharded.activation_decision();
    };
    const ActivationDecision all = decided(kPlenty);
    const ActivationDecision some = decided((least_of(all) + all.plan.peak_bytes) / 2);
    Tensor facts = torch::tensor({some.plan.peak_bytes, least_of(some)}, torch::kInt64);
    for (const KeptResults keep : some.plan.keep)
      facts = torch::cat({facts, torch::tensor({static_cast<int64_t>(keep)})});
    for (const Tensor& theirs : world.all_gather(facts)) EXPECT_TRUE(torch::equal(theirs, facts));
  });
}

TEST(ActivationBudget, KeepsTheInputsAloneOfBlocksWithLargerOnes) {
  run_ranks(1, [](World& world) {
    const auto net = make_net();
    auto sharded = shard(*net, world, {.units = blocks_as_units(), .activation_memory = kPlenty});
    AdamW optimizer(sharded);
    const auto kept = [&](int64_t rows) {
      Tensor loss = loss_of(*net, 0, rows);
      const int64_t bytes = sharded.memory().activation_bytes;
      loss.backward();
      return bytes;
    };
    const int64_t inputs = kept(4);
    {
      const torch::NoGradGuard no_grad;
      loss_of(*net, 0, /*rows=*/32);  // keeps nothing, and so is no measure
    }
    optimizer.step();
    optimizer.zero_grad();
    EXPECT_GT(kept(4), 3 * inputs);
    EXPECT_GT(kept(2), inputs);
    EXPECT_EQ(kept(8), 2 * inputs);
  });
}

// Several forwards before their backwards, graphs that are retained, validations, and sums in no_sync scopes.
TEST(ActivationBudget, HoldsInUnusualSteps) {
  using Backwards = std::function<void(Net & net, ShardedModel & sharded)>;
  const std::vector<std::pair<std::string, Backwards>> steps{
      {"two forwards",
       [](Net& net, ShardedModel&) {
         Tensor first = loss_of(net, 0), second = loss_of(net, 1);
         first.backward();
         second.backward();
       }},
      {"two forwards, one backward", [](Net& net, ShardedModel&) { (loss_of(net, 0) + loss_of(net, 1)).backward(); }},
      {"a retained graph",
       [](Net& net, ShardedModel&) {
         const Tensor loss = loss_of(net, 0);
         loss.backward({}, /*retain_graph=*/true);
         loss.backward();
       }},
      {"a validation",
       [](Net& net, ShardedModel&) {
         loss_of(net, 0).backward();
         const torch::NoGradGuard no_grad;
         loss_of(net, 1);
       }},
      {"no_sync", [](Net& net, ShardedModel& sharded) {
         {
           const NoSync scope = sharded.no_sync();
           loss_of(net, 0).backward();
         }
         loss_of(net, 1).backward();
       }}};
  run_ranks(2, [&](World& world) {
    for (const auto& [name, backwards] : steps) {
      int64_t least = 0, most = 0;
      for (const int64_t part : {-1, 0, 1, 2, 3, 4}) {
        SCOPED_TRACE(fmt::format("{}, {} / 4", name, part));
        const int64_t budget = part < 0 ? kPlenty : least + (most - least) * part / 4;
        const auto net = make_net();
        auto sharded = shard(*net, world, {.units = blocks_as_units(), .activation_memory = budget});
        AdamW optimizer(sharded);
        for (int step = 0; step < 3; ++step) {
          backwards(*net, sharded);
          optimizer.step();
          optimizer.zero_grad();
        }
        EXPECT_LE(sharded.memory().peak_activation_bytes, budget);
        const ActivationDecision decision = sharded.activation_decision().value();
        if (part < 0) {
          least = least_of(decision);
          most = decision.plan.peak_bytes;
          EXPECT_THAT(decision.plan.keep, Each(KeptResults::All));
        }
      }
    }
  });
}

// Its input is kept before any parameter was used, and so is not counted; what it saves of it later is.
TEST(ActivationBudget, HoldsWhereAModelBeginsWithABlock) {
  run_ranks(1, [](World& world) {
    for (const bool llama : {false, true}) {
      const NetOptions with{.llama = llama, .begins_with_block = true};
      const ActivationDecision all = decision_of(with, world, {.activation_memory = kPlenty}, {.steps = 2});
      for (const int64_t budget : budgets_between(least_of(all), all.plan.peak_bytes)) {
        SCOPED_TRACE(budget);
        const TestModel model = test_model(with);
        auto sharded = shard(*model.module, world, {.units = blocks_as_units(), .activation_memory = budget});
        testing_models::train(model, sharded, world, {.steps = 3});
        EXPECT_LE(sharded.memory().peak_activation_bytes, budget);
      }
    }
  });
}

TEST(ActivationBudget, IsForModulesWithBlocksThatRunAgain) {
  run_ranks(1, [](World& world) {
    const auto plain = make_net({.recomputed = false});
    EXPECT_THAT(message_of<Error>([&] { shard(*plain, world, {.activation_memory = 1000}); }),
                HasSubstr("has no Recomputed block"));
    EXPECT_THAT(message_of<Error>([&] { shard(*plain, world, {.activation_memory = -1}); }),
                HasSubstr("found activation_memory -1"));
    const ScratchDirectory scratch;
    EXPECT_THAT(message_of<Error>([&] {
                  shard(*make_net(), world,
                        {.offload_directory = scratch.path(), .activation_memory = 1, .offload_activations = true});
                }),
                HasSubstr("for activations that stay in memory"));
    EXPECT_THAT(message_of<Error>([&] {
                  shard({NamedUnit{.name = "unit", .parameters = {{"weight", torch::ones({2})}}, .buffers = {}}}, world,
                        {.activation_memory = 1000});
                }),
                HasSubstr("which this model is not"));
    const auto net = make_net();
    net->blocks->at<RecomputedImpl<GptBlockImpl>>(1).set_recomputation({.keep = KeptResults::Products});
    EXPECT_THAT(message_of<Error>([&] { shard(*net, world, {.activation_memory = 1000}); }),
                AllOf(HasSubstr("block blocks.1"), HasSubstr("set_recomputation")));
    net->blocks->at<RecomputedImpl<GptBlockImpl>>(1).set_recomputation({});
    auto sharded = shard(*net, world, {.activation_memory = 1'000'000});
    EXPECT_FALSE(sharded.activation_decision().has_value());
    EXPECT_THAT(message_of<Error>([&] {
                  net->blocks->at<RecomputedImpl<GptBlockImpl>>(1).set_recomputation({.keep = KeptResults::All});
                }),
                HasSubstr("Options::activation_memory decides"));
  });
}

// What `preview_recomputation` tells before is what a run measures.
TEST(ActivationBudget, IsForeseenToTheByte) {
  run_ranks(1, [](World& world) {
    for (const bool llama : {false, true}) {
      const auto net = make_net({.llama = llama});
      const RecomputedStorages storages = preview_recomputation(*net, [&] {
        Tensor loss = loss_of(*net, 0);
        loss.backward();
        return loss;
      });
      const auto sum = [](const std::vector<int64_t>& all) {
        return std::accumulate(all.begin(), all.end(), int64_t{0});
      };
      std::vector<int64_t> peaks(storages.blocks.size() + 1);
      for (const auto& moment : storages.moments) {
        peaks[moment.open_blocks] = std::max(peaks[moment.open_blocks], sum(moment.storages));
      }
      const ActivationDecision measured =
          decision_of({.llama = llama}, world, {.activation_memory = kPlenty}, {.steps = 2});
      ASSERT_EQ(storages.blocks.size(), measured.measured.blocks.size());
      for (size_t i = 0; i < storages.blocks.size(); ++i) {
        const BudgetedBlock& block = measured.measured.blocks[i];
        EXPECT_EQ(storages.blocks[i].name, block.name);
        EXPECT_EQ(sum(storages.blocks[i].products), block.choices[1].kept_bytes);
        EXPECT_EQ(sum(storages.blocks[i].unsaved_products), block.choices[1].backward_bytes);
        EXPECT_EQ(sum(storages.blocks[i].all), block.choices[2].kept_bytes);
      }
      EXPECT_EQ(peaks, measured.measured.peaks);
    }
  });
}

}  // namespace
}  // namespace fsdp::activation_budgets
