// The peak of all tensors of a step: activations, gradients in transit and temporaries of kernels. Pure arithmetic on
// plan/graph.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/activations.h"

namespace fsdp::plan {

// The place of the gradients of parameters.
enum class ParameterGradients {
  InBuffers,  // of the library, except an embedding's and a head's. A head that is not tied counts as well.
  OfAutograd  // they stay until the step: one rank alone with one micro-batch
};

struct StepTensors {
  ParameterGradients gradients = ParameterGradients::InBuffers;
  std::optional<int64_t> offloaded_from = std::nullopt;  // bytes of tensors that lie in files; none: all stay in memory
};

// Bytes of one micro-batch on one rank, parameters excepted. Walks the backward as autograd runs it: an operator's
// gradients are made, then the tensors that it kept are freed, then the gradient that came. Memory in which single
// kernels compute is not counted. A tensor in a file is in memory while it is made, and while its operator's backward
// runs.
int64_t tensor_peak_bytes(const Pieces& pieces, const StepTensors& step);
int64_t tensor_peak_bytes(const ModelGraphs& model, const std::vector<KeptResults>& layers,
                          ParameterGradients gradients);

// The most bytes of a forward without gradients. Functions hold their local tensors: each lives until its branch of the
// residual stream ends, but those inside of a norm go with it.
int64_t evaluation_peak_bytes(const Pieces& pieces);

}  // namespace fsdp::plan
