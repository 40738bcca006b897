#include "plan/frozen_parameters.h"

#include <algorithm>
#include <vector>

namespace fsdp::plan {

namespace {

// Bytes of an operator's parameters that are trained.
struct TrainedBytes {
  TrainedBytes(const Operator& operation, const TrainedParameters& trained)
      : weight(trained.weight ? operation.parameter_bytes - operation.bias_bytes : 0),
        bias(trained.bias ? operation.bias_bytes : 0) {}
  int64_t weight, bias;
};

class FrozenPiece {
 public:
  explicit FrozenPiece(Graph& piece) : piece_(piece) {}

  void freeze(Operator& operation, const TrainedParameters& trained) {
    const TrainedBytes bytes(operation, trained);
    const bool reads_any = std::ranges::any_of(operation.reads, [this](size_t read) { return has_gradient(read); });
    operation.parameter_bytes = bytes.weight + bytes.bias;
    operation.bias_bytes = bytes.bias;
    if (operation.parameter_bytes == 0) operation.weight_gradient.clear();
    if (!reads_any) operation.input_gradient.clear();
    if (reads_any || operation.parameter_bytes > 0) {
      keep_needed(operation, bytes);
      return;
    }
    operation.keeps.clear();
    operation.backward_bytes = 0;
    for (const size_t written : operation.writes) piece_.tensors[written].gradient_bytes = 0;
  }

 private:
  bool has_gradient(size_t tensor) const { return piece_.tensors[tensor].has_gradient(); }

  void keep_needed(Operator& operation, const TrainedBytes& bytes) const {
    std::vector<size_t>& keeps = operation.keeps;
    if (operation.kept_for == KeptFor::Weight && bytes.weight == 0) keeps.clear();
    if (operation.kept_for != KeptFor::Other) return;
    const std::vector<size_t> factors = keeps;
    keeps.clear();
    for (size_t i = 0; i < factors.size(); ++i) {
      if (has_gradient(operation.reads[1 - i])) keeps.push_back(factors[i]);
    }
  }

  Graph& piece_;
};

}  // namespace

Graph with_frozen_parameters(Graph piece, bool input_has_gradient,
                             const std::function<TrainedParameters(const std::string& name)>& trained) {
  if (!input_has_gradient) piece.tensors[piece.input].gradient_bytes = 0;
  FrozenPiece frozen(piece);
  for (Operator& operation : piece.operators)
    frozen.freeze(operation, operation.parameter_bytes > 0 ? trained(operation.name) : TrainedParameters());
  return piece;
}

}  // namespace fsdp::plan
