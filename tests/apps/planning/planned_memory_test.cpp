// A run holds the memory that was planned, to the byte.
#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "models/language_model.h"
#include "options/frozen.h"
#include "planning/host_memory.h"
#include "planning/measured_activations.h"
#include "planning/memory_plan.h"
#include "run/sharding.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/variable.h"

namespace trainer {
namespace {

using fsdp::testing::run_ranks;

Options small_run(const fsdp::World& world) {
  Options options;
  options.model = {.vocabulary = 61, .context = 8, .width = 20, .layers = 4, .heads = 2};
  options.ranks = world.size();
  options.micro_batches = 2;
  return options;
}

// At the end of the backward of the third step.
fsdp::MemoryReport held(fsdp::World& world, const Options& options) {
  const auto model = models::make_model(options.model);
  for (auto& parameter : model->named_parameters()) {
    if (frozen_parameters(options).contains(parameter.key())) parameter.value().set_requires_grad(false);
  }
  auto sharded = fsdp::shard(*model, world, sharding_of(options));
  std::unique_ptr<fsdp::Optimizer> optimizer;
  fsdp::AdamWOptions adamw;
  if (options.optimizer_state == "bf16") adamw.state_dtype = fsdp::StateDtype::BFloat16;
  if (options.optimizer_state == "8bit") adamw.state_dtype = fsdp::StateDtype::Block8;
  if (options.optimizer == "muon") {
    optimizer = std::make_unique<fsdp::Muon>(sharded, fsdp::MuonOptions{.adamw = adamw});
  } else {
    optimizer = std::make_unique<fsdp::AdamW>(sharded, adamw);
  }
  for (int step = 0; step < 3; ++step) {
    if (step > 0) {
      optimizer->step();
      optimizer->zero_grad();
    }
    const torch::Tensor tokens = torch::arange(16, torch::kInt64).view({2, 8});
    for (int micro_batch = 0; micro_batch < options.micro_batches; ++micro_batch)
      model->loss(tokens, tokens).backward();
  }
  return sharded.memory();
}

void expect_planned(fsdp::World& world, const Options& options, bool copies = false) {
  const fsdp::MemoryReport found = held(world, options);
  const auto plans = plan_memory(parts_of(options.model, frozen_parameters(options)).units, planned_sharding(options));
  const MemoryPlan& planned = plans.at(world.rank());
  EXPECT_EQ(found.parameter_bytes, planned.parameters);
  EXPECT_EQ(found.gradient_bytes, planned.gradients);
  EXPECT_EQ(found.optimizer_bytes, planned.optimizer);
  EXPECT_EQ(found.full_parameter_bytes, copies ? planned.copies : planned.full_parameters);
  EXPECT_EQ(found.full_gradient_bytes, planned.full_gradients);
  EXPECT_EQ(found.offloaded_bytes, planned.offloaded);
  EXPECT_EQ(found.total_bytes() - found.offloaded_bytes,
            planned.total() - planned.resident + (copies ? planned.copies : 0));
}

class PlannedMemory : public ::testing::TestWithParam<int> {};

TEST_P(PlannedMemory, IsHeldByEveryStrategyAndDtype) {
  run_ranks(GetParam(), [](fsdp::World& world) {
    for (const char* strategy : kStrategies) {
      for (const char* dtype : {"fp32", "bf16"}) {
        for (const char* reduce_dtype : {"fp32", "bf16"}) {
          SCOPED_TRACE(std::string(strategy) + ", parameters " + dtype + ", reductions " + reduce_dtype);
          Options options = small_run(world);
          options.strategy = strategy;
          options.param_dtype = dtype;
          options.reduce_dtype = reduce_dtype;
          expect_planned(world, options);
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, PlannedMemory, ::testing::Values(1, 2), ::testing::PrintToStringParamName());

TEST_P(PlannedMemory, IsHeldWhereTheModelLiesInFiles) {
  const fsdp::testing::ScratchDirectory scratch;
  run_ranks(GetParam(), [&](fsdp::World& world) {
    for (const char* strategy : {"full-shard", "no-shard"}) {
      for (const char* dtype : {"fp32", "bf16"}) {
        for (const char* offload : {"optimizer", "all"}) {
          SCOPED_TRACE(std::string(strategy) + ", parameters " + dtype + ", offload " + offload);
          Options options = small_run(world);
          options.strategy = strategy;
          options.param_dtype = dtype;
          options.offload = offload;
          options.offload_directory = scratch.path();
          expect_planned(world, options);
        }
      }
    }
  });
}

// Each tensor of a copy begins at a multiple of 64 bytes, and all together take whole pages.
TEST(PlannedMemoryOf, CopiesForSaves) {
  const fsdp::testing::ScratchDirectory scratch;
  run_ranks(2, [&](fsdp::World& world) {
    for (const char* strategy : {"full-shard", "no-shard"}) {
      Options options = small_run(world);
      options.strategy = strategy;
      options.save_every = 1;
      const auto model = models::make_model(options.model);
      auto sharded = fsdp::shard(*model, world, sharding_of(options));
      fsdp::AdamW optimizer(sharded);
      fsdp::save_checkpoint_async(scratch.path() / "saved", {.model = &sharded, .optimizer = &optimizer}).wait();
      const auto plans = plan_memory(parts_of(options.model).units, planned_sharding(options));
      const int64_t found = sharded.memory().save_copy_bytes, planned = plans.at(world.rank()).save_copy;
      const auto tensors = static_cast<int64_t>(3 * sharded.parameters().size());
      EXPECT_EQ(planned > 0, std::string(strategy) == "full-shard" || world.rank() == 0);
      EXPECT_GE(found, planned);
      EXPECT_LE(found, planned + 64 * tensors + 4096);
      for (const auto off : {&Options::save_sync, &Options::no_save}) {
        Options others = options;
        others.*off = true;
        EXPECT_EQ(plan_memory(parts_of(options.model).units, planned_sharding(others)).at(world.rank()).save_copy, 0);
      }
    }
  });
}

TEST(PlannedMemoryOf, GroupsOfRanks) {
  run_ranks(4, [](fsdp::World& world) {
    for (const char* strategy : {"hybrid-shard", "hybrid-shard-grad-op", "shard-optimizer"}) {
      SCOPED_TRACE(strategy);
      Options options = small_run(world);
      options.strategy = strategy;
      options.shard_group_size = 2;
      expect_planned(world, options);
    }
  });
}

TEST(PlannedMemoryOf, StepsOfOneMicroBatch) {
  run_ranks(2, [](fsdp::World& world) {
    for (const char* strategy : kStrategies) {
      SCOPED_TRACE(strategy);
      Options options = small_run(world);
      options.strategy = strategy;
      options.micro_batches = 1;
      expect_planned(world, options);
    }
  });
}

TEST(PlannedMemoryOf, Muon) {
  run_ranks(2, [](fsdp::World& world) {
    Options options = small_run(world);
    options.optimizer = "muon";
    expect_planned(world, options);
  });
}

TEST(PlannedMemoryOf, EveryOptimizerState) {
  run_ranks(2, [](fsdp::World& world) {
    for (const char* strategy : {"full-shard", "no-shard"}) {
      for (const char* optimizer : kOptimizers) {
        for (const char* state : kOptimizerStates) {
          SCOPED_TRACE(std::string(strategy) + ", " + optimizer + ", " + state);
          Options options = small_run(world);
          options.strategy = strategy;
          options.optimizer = optimizer;
          options.optimizer_state = state;
          expect_planned(world, options);
        }
      }
    }
  });
}

TEST(PlannedMemoryOf, FrozenParametersAndAdapters) {
  run_ranks(2, [](fsdp::World& world) {
    for (const char* strategy : {"full-shard", "shard-grad-op", "shard-optimizer", "no-shard"}) {
      SCOPED_TRACE(strategy);
      Options options = small_run(world);
      options.strategy = strategy;
      options.freeze = "transformer.h.1,*.mlp.*";
      expect_planned(world, options);
      options.freeze = "";
      options.model.lora = models::Lora{.rank = 3, .targets = {"c_attn", "mlp.c_proj"}};
      expect_planned(world, options);
    }
  });
}

TEST(PlannedMemoryOf, ModelsOfFewUnits) {
  run_ranks(2, [](fsdp::World& world) {
    for (int64_t layers : {1, 2}) {
      SCOPED_TRACE(layers);
      Options options = small_run(world);
      options.model.layers = layers;
      expect_planned(world, options);
    }
  });
}

// Kept at the end of a forward, to the byte.
void expect_planned_activations(fsdp::World& world, const Options& options) {
  const PlannedActivations planned = measured_activations();
  const auto model = models::make_model(options.model);
  for (auto& parameter : model->named_parameters()) {
    if (frozen_parameters(options).contains(parameter.key())) parameter.value().set_requires_grad(false);
  }
  model->set_recomputation(options.recomputation());
  auto sharded = fsdp::shard(*model, world, sharding_of(options));
  const std::vector<int64_t> shape = {options.batch, options.model.context};
  const torch::Tensor tokens = torch::ones(shape, torch::kInt64), targets = torch::ones(shape, torch::kInt64);
  const torch::Tensor loss = model->loss(tokens, targets);
  if (options.activation_checkpoint == "none") {
    EXPECT_EQ(planned.bytes(options), static_cast<double>(sharded.memory().activation_bytes));
  }
  loss.backward();
  EXPECT_EQ(sharded.memory().activation_bytes, 0);
  EXPECT_EQ(planned.bytes(options), static_cast<double>(sharded.memory().peak_activation_bytes));
}

class ActivationsOfRuns : public ::testing::TestWithParam<int> {};

TEST_P(ActivationsOfRuns, ArePlannedForBothFamilies) {
  run_ranks(GetParam(), [](fsdp::World& world) {
    const models::ModelConfig gpt2 = {.vocabulary = 61, .context = 8, .width = 20, .layers = 4, .heads = 2};
    models::ModelConfig llama = {
        .family = models::Family::Llama, .vocabulary = 300, .context = 24, .width = 36, .layers = 3, .heads = 6};
    models::ModelConfig shared_keys = llama;
    shared_keys.key_value_heads = 2;
    shared_keys.head_width = 10;
    shared_keys.tied_embeddings = false;
    shared_keys.attention_bias = true;
    models::ModelConfig one_head = gpt2;
    one_head.heads = 1;
    one_head.layers = 20;
    models::ModelConfig dropping = gpt2;
    dropping.attention_dropout = dropping.residual_dropout = dropping.embedding_dropout = 0.1;
    models::ModelConfig dropping_llama = shared_keys;
    dropping_llama.attention_dropout = 0.1;
    int number = 0;
    for (const auto& model : {gpt2, llama, shared_keys, one_head, dropping, dropping_llama}) {
      for (const char* dtype : {"fp32", "bf16"}) {
        for (int64_t batch : {1, 6}) {
          SCOPED_TRACE(fmt::format("model {}, {}, batch {}", number, dtype, batch));
          Options options;
          options.model = model;
          options.param_dtype = dtype;
          options.batch = batch;
          options.ranks = world.size();
          expect_planned_activations(world, options);
        }
      }
      ++number;
    }
  });
}

// More than the loss has room for: it keeps some chunks of them.
TEST(ActivationsOfRunsWith, ManyLogits) {
  run_ranks(1, [](fsdp::World& world) {
    Options options;
    options.model = {.vocabulary = 200'003, .context = 24, .width = 8, .layers = 1, .heads = 1};
    options.ranks = world.size();
    for (const auto& [dtype, batch] : {std::pair{"fp32", 4}, {"bf16", 7}, {"bf16", 8}, {"fp16", 4}}) {
      SCOPED_TRACE(fmt::format("{}, batch {}", dtype, batch));
      options.param_dtype = dtype;
      options.batch = batch;
      expect_planned_activations(world, options);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ActivationsOfRuns, ::testing::Values(1, 2), ::testing::PrintToStringParamName());

TEST(ActivationsOfRunsWith, FrozenParametersAndAdapters) {
  run_ranks(1, [](fsdp::World& world) {
    Options options = small_run(world);
    options.freeze = "transformer.h.1,*.mlp.*";
    expect_planned_activations(world, options);
    options.freeze = "";
    options.model.lora = models::Lora{.rank = 3, .targets = {"c_attn", "mlp.c_proj"}};
    expect_planned_activations(world, options);
    options.model.lora->dropout = 0.1;
    expect_planned_activations(world, options);
  });
}

// At the peak, which comes while a layer runs again where the logits are small.
TEST(ActivationsOfRunsWith, Recomputation) {
  run_ranks(2, [](fsdp::World& world) {
    Options options = small_run(world);
    for (const models::Family family : {models::Family::Gpt2, models::Family::Llama}) {
      options.model = {.family = family, .vocabulary = 61, .context = 8, .width = 20, .layers = 4, .heads = 2};
      if (family == models::Family::Gpt2) options.model.residual_dropout = 0.1;
      for (const char* layers : {"all", "2", "selective"}) {
        for (const char* dtype : {"fp32", "bf16"}) {
          SCOPED_TRACE(fmt::format("{}, {} recomputed, {}", models::name_of(family), layers, dtype));
          options.activation_checkpoint = layers;
          options.param_dtype = dtype;
          expect_planned_activations(world, options);
        }
      }
    }
  });
}

// The least, and the most, of what a run measures; between them the choice depends on times.
TEST(ActivationsOfRunsWith, ABudget) {
  run_ranks(2, [](fsdp::World& world) {
    Options options = small_run(world);
    for (const models::Family family : {models::Family::Gpt2, models::Family::Llama}) {
      for (const char* dtype : {"fp32", "bf16"}) {
        SCOPED_TRACE(fmt::format("{}, {}", models::name_of(family), dtype));
        const PlannedActivations of_family = measured_activations();
        options.model = {.family = family, .vocabulary = 61, .context = 8, .width = 20, .layers = 4, .heads = 2};
        options.param_dtype = dtype;
        options.activation_memory = 1e12;
        const auto model = models::make_model(options.model);
        model->set_recomputation(options.recomputation());
        fsdp::Options sharding = sharding_of(options);
        sharding.activation_memory = static_cast<int64_t>(*options.activation_memory);
        auto sharded = fsdp::shard(*model, world, sharding);
        fsdp::AdamW optimizer(sharded);
        const torch::Tensor tokens = torch::ones({options.batch, options.model.context}, torch::kInt64);
        for (int step = 0; step < 2; ++step) {
          model->loss(tokens, tokens.clone()).backward();
          optimizer.step();
          optimizer.zero_grad();
        }
        const fsdp::ActivationDecision found = sharded.activation_decision().value();
        EXPECT_EQ(of_family.bytes(options), static_cast<double>(found.plan.peak_bytes));
        EXPECT_EQ(of_family.plan(options).keep, found.plan.keep);
        const int64_t least = std::ranges::max(found.measured.peaks);
        for (const int64_t budget : {least, (least + found.plan.peak_bytes) / 2}) {
          options.activation_memory = static_cast<double>(budget);
          EXPECT_LE(of_family.plan(options).peak_bytes, budget);
          EXPECT_GE(of_family.bytes(options), least);
        }
        options.activation_memory = static_cast<double>(least - 1);
        EXPECT_EQ(of_family.bytes(options), static_cast<double>(least));
        EXPECT_THROW(of_family.plan(options), fsdp::Error);
      }
    }
  });
}

TEST(ActivationsOfRunsWith, TheLeastThatTheLibraryOffloads) {
  EXPECT_EQ(kLeastOffloaded, static_cast<double>(fsdp::kLeastOffloadBytes));
}

TEST(ActivationsOfRunsWith, NoRandomNumbersOfThePlan) {
  torch::manual_seed(7);
  const torch::Tensor expected = torch::rand({3});
  torch::manual_seed(7);
  EXPECT_GT(measured_activations().bytes({}), 0);
  EXPECT_TRUE(torch::equal(torch::rand({3}), expected));
}

// Gradients on their way are told within the padding of their slices: 64 elements for each rank and unit.
TEST(PlannedMemoryOf, SeveralHosts) {
  const fsdp::testing::Hosts hosts{2, 2};
  fsdp::testing::run_on_hosts(hosts, [](fsdp::World& world) {
    for (const char* strategy : kStrategies) {
      SCOPED_TRACE(strategy);
      Options options = small_run(world);
      options.strategy = strategy;
      const fsdp::MemoryReport found = held(world, options);
      const auto plans = plan_memory(parts_of(options.model).units, planned_sharding(options, 2));
      const MemoryPlan& planned = plans.at(world.local_rank());
      EXPECT_EQ(found.parameter_bytes, planned.parameters);
      EXPECT_EQ(found.full_parameter_bytes, planned.full_parameters);
      EXPECT_NEAR(found.full_gradient_bytes, planned.full_gradients, 4 * 64 * 4 * 5);
    }
  });
}

TEST(PlannedMemoryOf, SeveralHostsWithFiles) {
  const fsdp::testing::ScratchDirectory scratch;
  fsdp::testing::run_on_hosts({.hosts = 2, .ranks = 2}, [&](fsdp::World& world) {
    for (const char* strategy : kStrategies) {
      SCOPED_TRACE(strategy);
      Options options = small_run(world);
      options.strategy = strategy;
      options.offload = "all";
      options.offload_directory = scratch.path();
      const auto plans = plan_memory(parts_of(options.model).units, planned_sharding(options, 2));
      const int64_t found = held(world, options).offloaded_bytes;
      // The last slice of a unit may have padding.
      if (world.rank() < 2) {
        EXPECT_EQ(found, plans.at(world.rank()).offloaded);
      }
    }
  });
}

TEST(PlannedMemoryOf, GathersThatCopy) {
  const fsdp::testing::CopyingGathers copying;
  run_ranks(2, [](fsdp::World& world) {
    for (const char* strategy : kStrategies) {
      SCOPED_TRACE(strategy);
      Options options = small_run(world);
      options.strategy = strategy;
      expect_planned(world, options, true);
    }
  });
}

TEST(PlannedMemoryOf, LogitsIsTheRoomOfTheLoss) {
  EXPECT_EQ(kLogitsBytes, static_cast<double>(fsdp::LinearCrossEntropyOptions{}.chunk_bytes));
}

}  // namespace
}  // namespace trainer
