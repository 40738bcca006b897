// The cross entropy of a language model's head, without its logits.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>

#include "fsdp/world.h"

namespace fsdp {

// How the losses of the targets are combined.
enum class LossReduction {
  Mean,  // over all targets that are not ignored; if all are, 0 with zero gradients (PyTorch: NaN)
  Sum,   // over all targets that are not ignored
  None,  // one for each target; 0 for an ignored one
};

// Options of linear_cross_entropy.
struct LinearCrossEntropyOptions {
  int64_t ignore_index = -100;  // a target that has no loss and moves no gradient
  double label_smoothing = 0;   // the share of a target, 0 to 1, that is spread evenly over the vocabulary
  // Adds z_loss * logsumexp(logits)^2 to each target's loss, which keeps logits small (PaLM, arXiv:2204.02311, §5).
  double z_loss = 0;
  LossReduction reduction = LossReduction::Mean;  // of the targets' losses
  // Logits in memory at a time, also between forward and backward. At least one vocabulary entry's, for all rows.
  int64_t chunk_bytes = 64 << 20;
  // The same on a GPU. Small chunks leave a GPU idle between kernels.
  int64_t gpu_chunk_bytes = int64_t{1} << 30;
  // false: the host does not wait for a GPU, and the caller checks that targets are in the vocabulary. A target outside
  // of it then counts as an entry with logit 0.
  bool check_targets = true;
  // The ranks among which the vocabulary is divided, as ParallelEmbedding divides it (tensor_parallel.h). `weight` is
  // [entries of this rank, width]. `hidden` and `targets` are the same on all ranks, and targets are entries of the
  // whole vocabulary. The loss and the gradient of `hidden` are complete, and the same on all ranks. Forward and
  // backward are collectives of the axis; the host waits in each forward. Throws `Error` on all ranks if a rank has
  // other entries than its parts.
  std::optional<World> divided_over = std::nullopt;
  // T, as in TensorParallelOptions: a multiple of divided_over->size(); 0: its size. The bits depend on T, and not on
  // the number of ranks. chunk_bytes are then for each part of a rank. Not used without divided_over.
  int parts = 0;
};

// torch::nn::functional::cross_entropy(hidden.matmul(weight.t()), targets) for hidden [*, width], weight [vocabulary,
// width] and targets [*], int64. The logits are made for a chunk of the vocabulary at a time ("cut cross entropy",
// arXiv:2411.09009). `hidden`, two numbers per target and as many chunks as fit in `chunk_bytes` (on a GPU
// `gpu_chunk_bytes`) are kept until the backward. The backward computes the other chunks again. So the memory of logits
// is bounded. The cost is at most one matrix product more than the head's three, and none if all logits fit. If nothing
// requires a gradient, one chunk exists at a time.
//
// `hidden` and `weight` have the same floating dtype. Logits have its precision, as in torch::linear. Their
// exponentials, all sums and the result are fp32, or fp64 for fp64. The result is a scalar, or has the shape of
// `targets`. `weight` may be a sharded parameter, tied with an embedding or not. One operator uses it in the forward
// and one in the backward, and its gradient is written directly where it is reduced. Chunks depend only on shapes and
// options, so the bits are those of one process. They are not those of cross_entropy, which adds in another order.
//
// Throws `Error` for other shapes and dtypes, for invalid options, and for a backward with create_graph: there is no
// second derivative. Throws it also for a target outside of [0, vocabulary) that is not `ignore_index`, and names the
// target and its position. On a GPU this check waits for the targets (check_targets).
torch::Tensor linear_cross_entropy(const torch::Tensor& hidden, const torch::Tensor& weight,
                                   const torch::Tensor& targets, LinearCrossEntropyOptions options = {});

// The bytes of logits that linear_cross_entropy keeps on this rank between a forward and its backward, for so many
// targets and entries of the whole vocabulary, and `hidden` of that dtype and on that device. MemoryReport counts them
// as activations.
int64_t kept_logit_bytes(int64_t targets, int64_t vocabulary, torch::ScalarType dtype,
                         const LinearCrossEntropyOptions& options = {}, const torch::Device& device = torch::kCPU);

}  // namespace fsdp
