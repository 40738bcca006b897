// The logits of a head, hidden @ weight^T, a chunk of the vocabulary at a time: what a cross entropy needs of them.
//
// A chunk has some columns of the matrix of logits, and all rows. So each part of the weight is read once, and its
// gradient is one product over all rows, written once, whatever its dtype: chunks of rows would add it up in that.
//
// The forward keeps the logits of as many chunks as there is room for; the backward makes the others again. Both have
// the same bits, and so the backward may use them up.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "api/logit_passes.h"
#include "interpose/saved_tensors.h"

namespace fsdp {

// Shapes: [rows, width], [vocabulary, width] and [rows], in one floating dtype and int64.
struct Head {
  torch::Tensor hidden, weight, targets;
  int64_t chunk_bytes;  // of logits at a time
};

// Logits of the first chunks, counted as activations.
using KeptLogits = std::vector<interpose::WatchedTensor>;

struct HeadStatistics {
  RowStatistics rows;
  KeptLogits kept;
};

// The bytes of kept logits, for so many rows and entries of a vocabulary, with logits like `dtype` on `device`.
int64_t bytes_of_kept_logits(int64_t rows, int64_t vocabulary, torch::ScalarType dtype, const torch::Device& device,
                             int64_t chunk_bytes);

enum class Keep { None, WhatFits };
HeadStatistics head_statistics(const Head& head, bool with_total, Keep keep);

// The gradients of the hidden states and the weight, from the gradient of the logits; undefined if not needed.
struct HeadGradients {
  torch::Tensor of_hidden;  // zeros in the dtype of sums, to be added to
  torch::Tensor of_weight;  // as the weight, to be overwritten
};

void write_gradients(const Head& head, const LogitGradient& of_logits, KeptLogits kept, const HeadGradients& into);

}  // namespace fsdp
