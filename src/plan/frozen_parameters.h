// A piece of a model in which some parameters are not trained: autograd keeps fewer of its tensors. Pure arithmetic on
// plan/graph.h.
#pragma once

#include <functional>
#include <string>

#include "plan/graph.h"

namespace fsdp::plan {

// The parameters of an operator that are trained.
struct TrainedParameters {
  bool weight = true, bias = true;
};

// `piece` with the tensors and the gradients of its backward alone. `trained` says it of an operator by its name. An
// operator without parameters is not asked about. `input_has_gradient`: a parameter before the piece is trained.
Graph with_frozen_parameters(Graph piece, bool input_has_gradient,
                             const std::function<TrainedParameters(const std::string& name)>& trained);

// True if the backward comes to what lies before the piece's end.
inline bool output_has_gradient(const Graph& piece) { return piece.tensors[piece.output].has_gradient(); }

}  // namespace fsdp::plan
