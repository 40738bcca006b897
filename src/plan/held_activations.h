// Activations that a rank of a pipeline holds at once, by the order of its passes. Pure.
#pragma once

#include <span>
#include <vector>

#include "stages/stage_action.h"

namespace fsdp::plan {

// For a micro-batch, of one stage, in bytes.
struct StageBytes {
  double kept = 0;    // from a forward to its backward
  double most = 0;    // during its passes, at most
  double later = 0;   // from an input gradient to the weight gradients: what their products need
  double output = 0;  // that the graph holds beside, from a forward to its backward
};

// The most bytes at any time, in all and of outputs alone.
struct HeldBytes {
  double activations = 0, outputs = 0;
};
// `actions` are those of one rank, and `stages` has all of the pipeline. Throws Error for a pass of another stage.
HeldBytes most_held(std::span<const stages::StageAction> actions, const std::vector<StageBytes>& stages);

}  // namespace fsdp::plan
