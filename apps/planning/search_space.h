// The settings among which a search chooses. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/plan_target.h"
#include "planning/search_setting.h"

namespace trainer {

// All settings for each number of ranks. A step has the tokens that it has with `options`, resolved. Options that are
// given (RunOptions::chosen) stay as they are, but for the division of a rank's sequences into micro-batches. Tensor
// ranks lie on one host. Meshes are for libfsdp on GPUs alone.
std::vector<SearchSetting> search_space(const PlanTarget& target, const RunOptions& options,
                                        const std::vector<int64_t>& ranks);

}  // namespace trainer
