// The forwards of a model's blocks, which run one after the other.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <optional>
#include <vector>

#include "models/division.h"
#include "models/key_value_cache.h"
#include "models/model_config.h"
#include "models/rotary_embedding.h"

namespace models {

// The common data of the blocks of a pass.
class Pass {
 public:
  explicit Pass(KeyValueCache* cache = nullptr) : cache_(cache) {}

  KeyValueCache* cache() const { return cache_; }
  // The position of the first token.
  int64_t first() const { return cache_ == nullptr ? 0 : cache_->length(); }
  // Llama: computed once, and again for another length or device.
  const Rotation& rotation(const torch::Tensor& frequencies, int64_t length, const torch::Device& device);

 private:
  KeyValueCache* cache_;
  std::optional<Rotation> rotation_;
};

// `block` is the module of the block, `x` its input: tokens [batch, length], or [batch, length, width]. Returns
// [batch, length, width]. With sequence_parallel, x and the result are this rank's slices of the length; the tokens and
// the last result are whole.
using BlockForward = std::function<torch::Tensor(torch::nn::Module& block, torch::Tensor x, Pass& pass)>;

// The forwards of models::blocks(config), without that of the head.
std::vector<BlockForward> block_forwards(const ModelConfig& config, const Division& division);

}  // namespace models
