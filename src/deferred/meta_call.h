// A recorded operator on tensors of the meta device: shapes, dtypes and errors of its results, without their bytes.
#pragma once

#include <ATen/core/stack.h>

#include <string>

#include "deferred/recorded_operator.h"

namespace fsdp::deferred {

struct MetaResults {
  torch::jit::Stack results = {};
  std::string problem = {};  // why there are none
};

// Shapes and dtypes come of it, and errors; a result that depends on values is a problem. An operator that gives what
// it writes needs no kernel for it.
MetaResults call_on_meta(const RecordedOperator& recorded);

}  // namespace fsdp::deferred
