#include "models/hugging_face_weights.h"

namespace models {

fsdp::PretrainedOptions pretrained_options(const ModelConfig& config) {
  fsdp::PretrainedOptions options;
  if (config.family == Family::Gpt2) {
    options.optional_prefix = "transformer.";
    options.transposed = {"*.attn.c_attn.weight", "*.attn.c_proj.weight", "*.mlp.c_fc.weight", "*.mlp.c_proj.weight"};
    options.ignored = {"*.attn.bias", "*.attn.masked_bias"};
  } else {
    options.optional_prefix = "model.";
    options.ignored = {"*rotary_emb.inv_freq"};
  }
  if (config.tied_embeddings) options.ignored.push_back("lm_head.weight");
  return options;
}

}  // namespace models
