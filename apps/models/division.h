// How the layers of a model are divided among ranks: tensor parallelism (fsdp/tensor_parallel.h).
#pragma once

#include <fsdp/world.h>

#include <optional>

namespace models {

// Every rank of `tensor` has an equal one. Names, whole shapes and first values of parameters do not depend on it.
struct Division {
  // The ranks that compute one model together: an axis of a mesh. They pass the same tokens and get the same results.
  // None: plain layers, and the other members are not used.
  std::optional<fsdp::World> tensor = std::nullopt;
  // T, a multiple of tensor->size(). The bits depend on T, and not on the number of ranks: with an axis of size 1, one
  // process computes all T parts. A division into 1 part may differ from plain layers in the last bits.
  int parts = 1;
  // Between the divided layers, activations are slices of the sequence (Korthikanti et al., arXiv:2205.05198). `parts`
  // divides the length of sequences in training.
  bool sequence_parallel = false;
};

}  // namespace models
