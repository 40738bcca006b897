#include "models/model_blocks.h"

#include "models/gpt2.h"
#include "models/llama.h"

namespace models {

const Rotation& Pass::rotation(const torch::Tensor& frequencies, int64_t length, const torch::Device& device) {
  if (rotation_ && rotation_->cosines.size(0) == length && rotation_->cosines.device() == device) return *rotation_;
  const c10::InferenceMode normal_tensors(false);  // later passes may have gradients
  return rotation_.emplace(rotation_of(frequencies.to(device), first(), length));
}

std::vector<BlockForward> block_forwards(const ModelConfig& config, const Division& division) {
  return config.family == Family::Gpt2 ? gpt2_forwards(config, division) : llama_forwards(config, division);
}

}  // namespace models
