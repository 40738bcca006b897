// The logits of a head, hidden @ weight^T, a chunk of the vocabulary at a time: what a cross entropy needs of them.
//
// A chunk has some columns of the matrix of logits, and all rows. So each part of the weight is read once, and its
// gradient is one product over all rows, written once, whatever its dtype: chunks of rows would add it up in that.
// Plain operators on plain tensors.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace fsdp {

// Of [rows, width], [vocabulary, width] and [rows], in one floating dtype and int64.
struct Head {
  torch::Tensor hidden, weight, targets;
  int64_t chunk_bytes;  // of logits at a time
};

// The dtype of exponentials and sums: fp32, or fp64 for fp64.
torch::ScalarType dtype_of_sums(const torch::Tensor& tensor);

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
  torch::Tensor mean;       // of the logits; undefined unless asked for
};

RowStatistics row_statistics(const Head& head, bool with_mean);

// The gradient of the logits: of row r and entry v,
//
//   factor[r] * exp(logit[r, v] - largest[r]) + everywhere[r] + at_target[r] * (v == targets[r])
struct LogitGradient {
  torch::Tensor largest, factor, everywhere, at_target;  // [rows]; `everywhere` may be undefined: 0
};

// What it comes to for the hidden states and the weight; undefined where nobody asks for it.
struct HeadGradients {
  torch::Tensor of_hidden;  // zeros in the dtype of sums, to be added to
  torch::Tensor of_weight;  // as the weight, to be overwritten
};

void write_gradients(const Head& head, const LogitGradient& of_logits, const HeadGradients& into);

}  // namespace fsdp
