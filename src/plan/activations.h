// Activations from a model's operators: the tensors that autograd keeps from the forward to the backward. Pure
// arithmetic on plan/graph.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fsdp/activation_memory.h"
#include "plan/graph.h"

namespace fsdp::plan {

// The tensors that a piece keeps from its forward to its backward, as numbers in Graph::tensors, ascending. `keep` is
// that of its checkpoint: KeptResults::All without one.
std::vector<size_t> kept_tensors(const Graph& piece, KeptResults keep);

// The tensors that are kept when the piece's own backward begins: with a checkpoint, at the end of its second run.
std::vector<size_t> backward_tensors(const Graph& piece, KeptResults keep);

// Those of kept_tensors that Options::offload_activations moves to files: of at least `least_bytes`, that autograd
// keeps in a forward. Results that a checkpoint keeps, and tensors of a second run, stay in memory.
std::vector<size_t> offloaded_tensors(const Graph& piece, KeptResults keep, int64_t least_bytes);

// The sum of their bytes.
int64_t bytes_of(const Graph& graph, const std::vector<size_t>& tensors);

// A piece that a rank runs. The graph is not owned.
struct Piece {
  const Graph* graph;
  KeptResults keep = KeptResults::All;
};
// In the order of the forward.
using Pieces = std::vector<Piece>;

// All pieces of a model, which lives longer. `layers` says for each layer what its checkpoint keeps.
Pieces pieces_of(const ModelGraphs& model, const std::vector<KeptResults>& layers);

// Bytes of one micro-batch on one rank, as MemoryReport::peak_activation_bytes counts them.
struct ActivationBytes {
  int64_t forward = 0;  // kept at the end of the forward
  int64_t peak = 0;     // the most, in the forward or the backward
};

ActivationBytes activation_bytes(const Pieces& pieces);
ActivationBytes activation_bytes(const ModelGraphs& model, const std::vector<KeptResults>& layers);

// With Options::offload_activations: bytes in memory and in files, each when it is most.
struct OffloadedBytes {
  int64_t in_memory = 0, in_files = 0;
};
OffloadedBytes offloaded_bytes(const Pieces& pieces, int64_t least_bytes);

// The choices of a budget for activations (plan_activations). Second runs take a second each, and with products kept
// `1 - product_share`. The layers' checkpoints are of no matter.
ActivationTimeline activation_timeline(const ModelGraphs& model, size_t layers, double product_share);

}  // namespace fsdp::plan
