// Mixtures of experts: each micro-batch's data chooses the parts of a block that run.
#pragma once

#include <set>

#include "support/models.h"

namespace fsdp::testing_models {

constexpr int64_t kExpertBlocks = 3;

TestModel make_experts();

// By the first block, whatever it is trained on.
std::set<int64_t> chosen_experts(int64_t micro_batch);

}  // namespace fsdp::testing_models
