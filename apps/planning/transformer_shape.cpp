#include "planning/transformer_shape.h"

namespace trainer {

fsdp::plan::TransformerShape transformer_shape(const models::ModelConfig& model) {
  const bool is_llama = model.family == models::Family::Llama;
  return {.layers = model.layers,
          .width = model.width,
          .heads = model.heads,
          .key_value_heads = model.key_value_heads_or_default(),
          .head_width = model.head_width_or_default(),
          .mlp_width = model.mlp_width_or_default(),
          .has_gate = is_llama,
          .vocabulary = model.vocabulary,
          .positions = is_llama ? 0 : model.context,
          .is_tied = model.tied_embeddings,
          .has_layer_norm = !is_llama,
          .has_rotary = is_llama,
          .has_bias = !is_llama,
          .is_causal = model.family != models::Family::Bert};
}

}  // namespace trainer
