// A small GPT in blocks, with dropout, and its training on one process by LibTorch alone.
#pragma once

#include <fsdp/fsdp.h>

#include <string>
#include <utility>
#include <vector>

namespace fsdp::testing_models {

struct SmallGpt {
  int64_t vocabulary = 31, length = 6, width = 16;
  int layers = 4;
  double dropout = 0.1;
  bool tied = true;
};

std::vector<PipelineBlock> blocks_of(const SmallGpt& model);

// The tokens of a micro-batch of a step, [rows, length], and those behind them.
torch::Tensor tokens_of(const SmallGpt& model, int step, int micro_batch, int64_t rows);
torch::Tensor next_tokens_of(const SmallGpt& model, int step, int micro_batch, int64_t rows);
torch::Tensor token_loss(const torch::Tensor& logits, const torch::Tensor& targets);

struct StepsOf {
  int steps = 2;
  int micro_batches = 4;
  int calls = 1;  // of Pipeline::step before each optimizer step
  // Micro-batches differ in size.
  int64_t rows(int micro_batch) const { return 1 + micro_batch % 3; }
};

// Inputs or targets of one call, one for each micro-batch.
Tensors inputs_of(const SmallGpt& model, const StepsOf& steps, int call);
Tensors targets_of(const SmallGpt& model, const StepsOf& steps, int call);

struct Trained {
  std::vector<double> losses;  // mean of each call
  std::vector<std::pair<std::string, torch::Tensor>> weights;
  torch::Tensor generator;
};

// The blocks one after the other in one process, with AdamW. A tied parameter is one tensor, under its first name.
// docs/parallelism.md has the rules that it follows.
Trained train_plainly(const SmallGpt& model, const StepsOf& steps, uint64_t seed);

}  // namespace fsdp::testing_models
