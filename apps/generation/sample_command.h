// fsdp-train sample: text from a trained model.
#pragma once

#include "generation/sample_inputs.h"

namespace trainer {

// Loads the model, on as many ranks as its checkpoint has shards, of which the first then goes on alone; prints
// --samples samples as their tokens come; and returns the exit code as `train` does. `inputs` have no problems. Call it
// before anything uses LibTorch: it forks.
int sample_command(const SampleInputs& inputs, const SampleOptions& options);

}  // namespace trainer
