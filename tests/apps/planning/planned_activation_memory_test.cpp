// A run keeps the activations that were planned, to the byte, on CPUs and on the tests' devices.
#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "apps/planning/held_memory.h"
#include "models/language_model.h"
#include "models/operators.h"
#include "planning/host_memory.h"
#include "planning/planned_activations.h"
#include "run/sharding.h"
#include "support/run_ranks.h"

namespace trainer {
namespace {

using fsdp::testing::run_rank_processes;

// Kept at the end of a forward, to the byte.
void expect_planned_activations(fsdp::World& world, const RunOptions& options) {
  const double planned = planned_activations(options, on_gpus(world)).in_memory;
  const auto model = model_of(world, options);
  auto sharded = fsdp::shard(*model, world, sharding_of(options));
  const torch::Tensor loss = model->loss(tokens_of(world, options), tokens_of(world, options));
  if (options.activation_checkpoint == "none") {
    EXPECT_EQ(planned, static_cast<double>(sharded.memory().activation_bytes));
  }
  loss.backward();
  EXPECT_EQ(sharded.memory().activation_bytes, 0);
  EXPECT_EQ(planned, static_cast<double>(sharded.memory().peak_activation_bytes));
}

class ActivationsOfRuns : public ::testing::TestWithParam<int> {};

TEST_P(ActivationsOfRuns, ArePlannedForBothFamilies) {
  run_rank_processes(GetParam(), [](fsdp::World& world) {
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
      for (const char* dtype : kDtypes) {
        for (int64_t batch : {1, 6}) {
          SCOPED_TRACE(fmt::format("model {}, {}, batch {}", number, dtype, batch));
          RunOptions options;
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
  run_rank_processes(1, [](fsdp::World& world) {
    RunOptions options;
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
  run_rank_processes(1, [](fsdp::World& world) {
    RunOptions options = small_run(world);
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
  run_rank_processes(2, [](fsdp::World& world) {
    RunOptions options = small_run(world);
    for (const models::Family family : {models::Family::Gpt2, models::Family::Llama}) {
      options.model = {.family = family, .vocabulary = 61, .context = 8, .width = 20, .layers = 4, .heads = 2};
      if (family == models::Family::Gpt2) options.model.residual_dropout = 0.1;
      for (const auto& [recomputed, layers] :
           {std::pair("all", 4), {"2", 4}, {"selective", 4}, {"all", 20}, {"selective", 20}}) {
        for (const char* dtype : {"fp32", "bf16"}) {
          SCOPED_TRACE(fmt::format("{}, {} of {} recomputed, {}", models::name_of(family), recomputed, layers, dtype));
          options.activation_checkpoint = recomputed;
          options.model.layers = layers;
          options.param_dtype = dtype;
          expect_planned_activations(world, options);
        }
      }
    }
  });
}

// The least, and the most, of what a run measures; between them the choice depends on times.
TEST(ActivationsOfRunsWith, ABudget) {
  run_rank_processes(2, [](fsdp::World& world) {
    RunOptions options = small_run(world);
    for (const models::Family family : {models::Family::Gpt2, models::Family::Llama}) {
      for (const char* dtype : {"fp32", "bf16"}) {
        SCOPED_TRACE(fmt::format("{}, {}", models::name_of(family), dtype));
        options.model = {.family = family, .vocabulary = 61, .context = 8, .width = 20, .layers = 4, .heads = 2};
        options.param_dtype = dtype;
        options.activation_memory = 1e12;
        const auto model = model_of(world, options);
        fsdp::Options sharding = sharding_of(options);
        sharding.activation_memory = static_cast<int64_t>(*options.activation_memory);
        auto sharded = fsdp::shard(*model, world, sharding);
        fsdp::AdamW optimizer(sharded);
        const torch::Tensor tokens = tokens_of(world, options);
        for (int step = 0; step < 2; ++step) {
          model->loss(tokens, tokens.clone()).backward();
          optimizer.step();
          optimizer.zero_grad();
        }
        const fsdp::ActivationDecision found = sharded.activation_decision().value();
        EXPECT_EQ(planned_activations(options, on_gpus(world)).in_memory, static_cast<double>(found.plan.peak_bytes));
        EXPECT_EQ(budgeted_activations(options, on_gpus(world)).keep, found.plan.keep);
        const int64_t least = std::ranges::max(found.measured.peaks);
        for (const int64_t budget : {least, (least + found.plan.peak_bytes) / 2}) {
          options.activation_memory = static_cast<double>(budget);
          EXPECT_LE(budgeted_activations(options, on_gpus(world)).peak_bytes, budget);
          EXPECT_GE(planned_activations(options, on_gpus(world)).in_memory, least);
        }
        options.activation_memory = static_cast<double>(least - 1);
        EXPECT_EQ(planned_activations(options, on_gpus(world)).in_memory, static_cast<double>(least));
        EXPECT_THROW(budgeted_activations(options, on_gpus(world)), fsdp::Error);
      }
    }
  });
}

TEST(ActivationsOfRunsWith, TheLeastThatTheLibraryOffloads) { EXPECT_EQ(kLeastOffloaded, fsdp::kLeastOffloadBytes); }

TEST(PlannedMemoryOf, LogitsIsTheRoomOfTheLoss) {
  EXPECT_EQ(models::kLogitBytes, fsdp::LinearCrossEntropyOptions{}.chunk_bytes);
  EXPECT_EQ(models::kGpuLogitBytes, fsdp::LinearCrossEntropyOptions{}.gpu_chunk_bytes);
}

}  // namespace
}  // namespace trainer
