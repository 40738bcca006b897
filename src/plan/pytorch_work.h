// The kernels of a transformer as PyTorch runs it, eagerly or compiled, with flash attention. Pure.
//
// Bytes count each tensor that an operator reads or writes once. Eager RMSNorm and rotary embeddings are compositions
// of small operators, as in the published Llama models.
#pragma once

#include "plan/transformer.h"
#include "plan/work.h"

namespace fsdp::plan {

struct BlockWork {
  std::vector<Work> forward, backward;
  // A backward runs these again, where each second product is kept. Where a block keeps its input alone, it runs the
  // forward again.
  std::vector<Work> again_selective;
  std::vector<Work> weight_gradient;  // those of the backward that ZeroBubble puts off
};
BlockWork pytorch_block(const TransformerShape& shape, const PassShape& pass, const Hardware& hardware);

struct EndsWork {
  std::vector<Work> embedding_forward, embedding_backward, head_forward, head_backward;
};
// The share of a product's rate where the vocabulary is no multiple of 8.
inline constexpr double kUnalignedRate = 0.4;

EndsWork pytorch_ends(const TransformerShape& shape, const PassShape& pass);

}  // namespace fsdp::plan
