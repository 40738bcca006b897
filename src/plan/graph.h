// A model's operators as data. Activations, floating-point operations and time follow from it, without LibTorch.
//
// A graph is one piece of a model: its embedding, a layer, the last norm, or the head with the loss. All sizes are
// those of one micro-batch on one rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::plan {

enum class OperatorKind {
  Product,        // matrix products; recomputation may keep the results
  Attention,      // scores, softmax and sums of values in one kernel; recomputation may keep the results
  Elementwise,    // reads and writes each element: memory bounds its time
  Normalisation,  // of rows: LayerNorm, RMSNorm, softmax
  Lookup,         // rows of an embedding
  Loss,           // the head's product and its cross entropy, a chunk of logits at a time
  Exchange,       // between the ranks of a tensor axis; `bytes_exchanged` says how much
};

// Memory that operators read and write. All views of it are the same tensor. Parameters are not among the tensors.
struct GraphTensor {
  std::string name;              // after its operator, as "mlp.c_fc"
  int64_t bytes = 0;             // of the whole memory, views or not
  int64_t gradient_bytes = 0;    // 0 for random masks, statistics, tokens and tables of angles
  bool is_common = false;        // every layer uses the same one, and so it counts once
  bool stays_in_memory = false;  // the library keeps it itself, and offload leaves it

  bool has_gradient() const { return gradient_bytes > 0; }
};

// A call of the device: a matrix product, or a pass over memory.
struct Kernel {
  // [m, k] times [k, n], `batch` times. m is 0: no product.
  int64_t m = 0, n = 0, k = 0, batch = 1;
  double flops = 0;        // floating-point operations beside the product's
  int64_t bytes_read = 0;  // from the device's memory, each operand once
  int64_t bytes_written = 0;
  bool is_again = false;  // repeats a product of the forward: the device's work, but not the model's

  double product_flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(batch);
  }
};

// The gradient that autograd keeps an operator's tensors for.
enum class KeptFor {
  Any,     // any of its results' gradients
  Weight,  // that of its weight
  Other    // of two factors: keeps[i] is the memory of reads[i], for the gradient of the other one
};

// An operator of the forward, with its backward. Tensors are numbers in Graph::tensors.
struct Operator {
  std::string name;  // "attn.c_attn"
  OperatorKind kind = OperatorKind::Elementwise;
  std::vector<size_t> reads = {};
  std::vector<size_t> writes = {};
  std::vector<size_t> keeps = {};  // of these, and others: what autograd keeps until the backward
  KeptFor kept_for = KeptFor::Any;
  bool draws_random = false;     // recomputation computes it again in any case
  bool passes_gradient = false;  // the gradient of the result is that of each input: the backward makes no tensor
  bool ends_branch = false;      // a sum with the residual stream: the branch's other tensors are gone when it begins
  int64_t parameter_bytes = 0;   // of its parameters, and of their gradients, in the dtype of activations
  int64_t bias_bytes = 0;        // of these, the bias's
  int64_t forward_bytes = 0;     // of tensors that are there during the forward alone
  int64_t backward_bytes = 0;    // and during the backward, beside the gradients
  std::vector<Kernel> forward = {};
  std::vector<Kernel> input_gradient = {};
  std::vector<Kernel> weight_gradient = {};
  int64_t bytes_exchanged = 0;  // Exchange: of the whole tensor, in the forward; as many in the backward
};

// Operators in the order of the forward.
struct Graph {
  std::vector<GraphTensor> tensors = {};
  std::vector<Operator> operators = {};
  size_t input = 0;   // the tensor that the piece is given: the output of the piece before it
  size_t output = 0;  // the loss, for the head
};

// A model. Its layers have equal graphs, unless parameters of some are frozen.
struct ModelGraphs {
  Graph embedding, layer, norm, head;
  std::vector<Graph> other_layers = {};
  std::vector<size_t> layer_kinds = {};  // by layer: 0 is `layer`, i is other_layers[i - 1]; empty: all are `layer`

  const Graph& graph_of_layer(size_t number) const {
    const size_t kind = number < layer_kinds.size() ? layer_kinds[number] : 0;
    return kind == 0 ? layer : other_layers[kind - 1];
  }
};

}  // namespace fsdp::plan
