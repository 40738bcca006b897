// The passes of a cross entropy over a chunk of logits: one for the loss, and one that makes their gradient of them.
//
// On the CPU each reads the chunk once, in fp32 and bf16 (logit_kernels.h); elsewhere they are plain operators on plain
// tensors.
#pragma once

#include <torch/types.h>

namespace fsdp {

// The dtype of exponentials and sums: fp32, or fp64 for fp64.
torch::ScalarType dtype_of_sums(torch::ScalarType dtype);
inline torch::ScalarType dtype_of_sums(const torch::Tensor& tensor) { return dtype_of_sums(tensor.scalar_type()); }

// Bytes for each logit that a pass takes beside the chunk.
int64_t bytes_beside_logit(torch::ScalarType dtype, const torch::Device& device);

// Some columns of the matrix of logits, and all rows.
struct LogitChunk {
  torch::Tensor logits;  // [rows, columns], contiguous
  torch::Tensor target;  // [rows], int64: the target's column, or a number below 0 or from `columns` on
};

// Per row, of its logits: [rows] in the dtype of sums. Together the logarithm of the sum of exponentials; apart,
// nothing is rounded away where one logit outweighs all others.
struct Exponentials {
  torch::Tensor largest;  // logit
  torch::Tensor sum;      // of exp(logit - largest)

  torch::Tensor logsumexp() const { return largest + sum.log(); }
};

struct RowStatistics {
  Exponentials exponentials;
  torch::Tensor of_target;  // the target's logit; 0 where the target is outside of the vocabulary
  torch::Tensor total;      // of the logits; undefined unless asked for
};

RowStatistics statistics_of_no_logits(const torch::Tensor& hidden, bool with_total);
void add_to(RowStatistics& rows, const LogitChunk& chunk);

// The gradient of the logits: of row r and entry v,
//
//   factor[r] * exp(logit[r, v] - largest[r]) + everywhere[r] + at_target[r] * (v == targets[r])
struct LogitGradient {
  torch::Tensor largest, factor, everywhere, at_target;  // [rows]; `everywhere` may be undefined: 0
};

// In place.
void make_gradient(const LogitChunk& chunk, const LogitGradient& of_logits);

}  // namespace fsdp
