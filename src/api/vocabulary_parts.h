// The vocabulary of a head as parts, each with its own logits (head_logits.h), and what a cross entropy needs of all.
//
// A head that is not divided has one part, and this is all of it. Otherwise each rank holds neighbouring parts, as in
// ParallelEmbedding. Statistics and gradients of the hidden states are combined over the parts of all ranks, in order.
#pragma once

#include <optional>
#include <vector>

#include "api/head_logits.h"
#include "fsdp/loss.h"
#include "layout/unit_layout.h"

namespace fsdp {

struct VocabularyParts {
  int64_t entries = 0;             // of the whole vocabulary
  std::vector<layout::Range> own;  // this rank's parts, in the whole vocabulary
  std::optional<World> axis;       // undivided: none
};

// `weight` is [entries of this rank, width]. Divided: a collective of the axis. Throws Error on all ranks if a rank
// holds other entries than its parts.
VocabularyParts vocabulary_parts(const torch::Tensor& weight, const LinearCrossEntropyOptions& options);

// By part of this rank.
using KeptLogitsOfParts = std::vector<KeptLogits>;

struct PartStatistics {
  RowStatistics rows;  // of the whole vocabulary
  KeptLogitsOfParts kept;
};

// `head` has this rank's weight, and targets in the whole vocabulary. Divided: a collective.
PartStatistics statistics_of_parts(const Head& head, const VocabularyParts& parts, bool with_total, Keep keep);

// As HeadGradients: places where gradients are to be written. Hidden: undefined until they are.
struct PartGradients {
  bool needs_hidden = false;
  torch::Tensor of_hidden;
  torch::Tensor of_weight;
};

// Divided and with needs_hidden: a collective.
void write_gradients_of_parts(const Head& head, const VocabularyParts& parts, const LogitGradient& of_logits,
                              KeptLogitsOfParts kept, PartGradients& into);

}  // namespace fsdp
