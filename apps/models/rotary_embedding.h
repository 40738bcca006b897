// Rotary position embedding (Su et al., 2021, https://arxiv.org/abs/2104.09864): pairs of a head's elements are turned
// by an angle that grows with the position, so that attention sees distances.
#pragma once

#include <torch/types.h>

#include "models/model_config.h"

namespace models {

// The pairs are elements i and i + head_width / 2, as in Hugging Face's files; Meta's own files pair neighbours.
struct Rotation {
  torch::Tensor cosines, sines;  // [length, head_width / 2], fp32

  // Turns heads [batch, heads, length, head_width], in their dtype.
  torch::Tensor turn(const torch::Tensor& heads) const;
};

// The angle by which each pair turns from one position to the next: [head_width / 2], fp32. Scaled as Llama 3.1's are
// where the config says so.
torch::Tensor rotary_frequencies(const ModelConfig& config);

// The rotation of `length` positions from `first` on.
Rotation rotation_of(const torch::Tensor& frequencies, int64_t first, int64_t length);

}  // namespace models
