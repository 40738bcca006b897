// A small run of fsdp-train on the ranks of a test, and the memory that it holds beside what was planned.
#pragma once

#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <memory>

#include "models/language_model.h"
#include "options/frozen.h"
#include "planning/host_memory.h"
#include "planning/planned_sharding.h"
#include "run/sharding.h"

namespace trainer {

inline bool on_gpus(const fsdp::World& world) { return world.device().is_cuda(); }

inline RunOptions small_run(const fsdp::World& world) {
  RunOptions options;
  options.model = {.vocabulary = 61, .context = 8, .width = 20, .layers = 4, .heads = 2};
  options.ranks = world.size();
  options.micro_batches = 2;
  return options;
}

inline std::shared_ptr<models::LanguageModel> model_of(const fsdp::World& world, const RunOptions& options) {
  auto model = models::make_model(options.model);
  model->to(world.device());
  for (auto& parameter : model->named_parameters()) {
    if (frozen_parameters(options).contains(parameter.key())) parameter.value().set_requires_grad(false);
  }
  model->set_recomputation(options.recomputation());
  return model;
}

inline torch::Tensor tokens_of(const fsdp::World& world, const RunOptions& options) {
  return torch::ones({options.batch, options.model.context}, torch::kInt64).to(world.device());
}

// At the end of the backward of the third step.
inline fsdp::MemoryReport held(fsdp::World& world, const RunOptions& options) {
  const auto model = model_of(world, options);
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
    const torch::Tensor tokens = torch::arange(16, torch::kInt64).view({2, 8}).to(world.device());
    for (int micro_batch = 0; micro_batch < options.micro_batches; ++micro_batch)
      model->loss(tokens, tokens).backward();
  }
  return sharded.memory();
}

inline void expect_planned(fsdp::World& world, const RunOptions& options, bool copies = false) {
  const fsdp::MemoryReport found = held(world, options);
  const auto plans = fsdp::plan::state_memory(parts_of(options).units, planned_sharding(options, 1, on_gpus(world)));
  const fsdp::plan::StateMemory& planned = plans.at(world.rank());
  EXPECT_EQ(found.parameter_bytes, planned.parameters);
  EXPECT_EQ(found.gradient_bytes, planned.gradients);
  EXPECT_EQ(found.optimizer_bytes, planned.optimizer);
  EXPECT_EQ(found.full_parameter_bytes, copies ? planned.copies : planned.full_parameters);
  EXPECT_EQ(found.full_gradient_bytes, planned.full_gradients);
  EXPECT_EQ(found.offloaded_bytes, planned.offloaded);
  EXPECT_EQ(found.total_bytes() - found.offloaded_bytes,
            planned.total() + planned.on_host - planned.resident + (copies ? planned.copies : 0));
}

}  // namespace trainer
