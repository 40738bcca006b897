// Tensors of a planned run beside its activations: gradients on their way, temporary results, logits, gradients of
// embeddings. From the model's operators (plan/tensor_peak.h). Pure.
#pragma once

#include "options/options.h"
#include "plan/tensor_peak.h"

namespace trainer {

// Bytes of a micro-batch's tensors when they are most, activations among them. With --eval-only those of a forward.
// Without a mesh.
double planned_tensor_bytes(const RunOptions& options, bool on_gpus);

// The same of a training's validation, whose passes have a size of their own.
double validation_tensor_bytes(const RunOptions& options, bool on_gpus);

// The place of the gradients that autograd makes of parameters.
fsdp::plan::ParameterGradients gradients_of(const RunOptions& options);

}  // namespace trainer
