// The rule of docs/determinism.md on one unsharded process: what every sharded run must equal bit for bit.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "support/models.h"

namespace fsdp::testing_models {

struct Training {
  int steps = 10;
  int64_t micro_batches = 1;  // a step, over all ranks
  double clip = 0;            // 0: none
  double lr = 1e-2;
};

using Weights = std::vector<std::pair<std::string, torch::Tensor>>;

// Each micro-batch's gradient apart, added in order, scaled, clipped, and one fused AdamW step on whole parameters.
Weights train_unsharded(const TestModel& model, const Training& training);

// Names of the weights whose bits differ; empty when all are equal.
std::vector<std::string> differences(const Weights& expected, const Weights& found);

}  // namespace fsdp::testing_models
