// The cross entropy of a language model's head, without its logits.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace fsdp {

// How the losses of the targets become one.
enum class LossReduction {
  Mean,  // over those that are not ignored; 0, with gradients of zero, where there is none (PyTorch: NaN)
  Sum,
  None,  // one for each target; 0 for an ignored one
};

struct LinearCrossEntropyOptions {
  int64_t ignore_index = -100;  // a target that has no loss and moves no gradient
  double label_smoothing = 0;   // the share, 0 to 1, of a target that is spread evenly over the vocabulary
  // Adds z_loss * logsumexp(logits)^2 to each target's loss, which keeps logits small (PaLM, arXiv:2204.02311, §5).
  double z_loss = 0;
  LossReduction reduction = LossReduction::Mean;
  // Of logits that are there at a time, between forward and backward too; at least one entry's, for all rows.
  int64_t chunk_bytes = 64 << 20;
  // The same for logits on a GPU, where small chunks leave the device idle between kernels.
  int64_t gpu_chunk_bytes = int64_t{1} << 30;
  // false: the caller has checked that targets are in the vocabulary, and the host does not wait for a GPU. A target
  // outside of it then counts as an entry whose logit is 0, and changes no weight of its own.
  bool check_targets = true;
};

// torch::nn::functional::cross_entropy(hidden.matmul(weight.t()), targets) for hidden [*, width], weight
// [vocabulary, width] and targets [*], int64. The logits are made for a chunk of the vocabulary at a time ("cut cross
// entropy", arXiv:2411.09009). Between forward and backward, `hidden`, two numbers for each target and as many chunks
// as fit in `chunk_bytes` (on a GPU `gpu_chunk_bytes`) are kept. The backward uses these up, and makes the others once
// more. So the memory of logits is bounded. It costs at most one more product beside the head's three, and none if all
// logits fit. If nothing requires a gradient, one chunk is there at a time.
//
// `hidden` and `weight` are of one floating dtype; logits have its precision, as those of torch::linear, while their
// exponentials and all sums are fp32, or fp64 for fp64. So is the result: a scalar, or of the shape of `targets`.
// `weight` may be a sharded parameter, tied with an embedding or not: it is used by one operator in the forward and one
// in the backward, and its gradient is written where it is reduced. Chunks depend on shapes and options alone, so the
// bits are those of one process. They are not those of cross_entropy, which adds in another order.
//
// Throws `Error` for other shapes and dtypes, for invalid options, and for a backward with create_graph: there is no
// second derivative. Throws it also for a target outside of [0, vocabulary) that is not `ignore_index`, and names the
// target and its position. On a GPU this check waits for the targets (check_targets).
torch::Tensor linear_cross_entropy(const torch::Tensor& hidden, const torch::Tensor& weight,
                                   const torch::Tensor& targets, LinearCrossEntropyOptions options = {});

// The bytes of logits that linear_cross_entropy keeps between a forward and its backward, for so many targets and
// entries of the vocabulary, and `hidden` of that dtype and on that device. MemoryReport counts them as activations.
int64_t kept_logit_bytes(int64_t targets, int64_t vocabulary, torch::ScalarType dtype,
                         const LinearCrossEntropyOptions& options = {}, const torch::Device& device = torch::kCPU);

}  // namespace fsdp
