// The shape of a transformer, as the time of its operators depends on it. Pure.
#pragma once

#include <cstdint>

namespace fsdp::plan {

struct TransformerShape {
  int64_t layers = 0;
  int64_t width = 0;
  int64_t heads = 0, key_value_heads = 0, head_width = 0;
  int64_t mlp_width = 0;
  bool has_gate = false;  // SwiGLU: two matrices into the MLP
  int64_t vocabulary = 0;
  int64_t positions = 0;       // learned ones
  bool is_tied = true;         // the head is the embedding
  bool has_layer_norm = true;  // otherwise RMSNorm
  bool has_rotary = false;
  bool has_bias = true;
  bool is_causal = true;

  int64_t queries() const { return heads * head_width; }
  int64_t keys() const { return key_value_heads * head_width; }
  int64_t block_parameters() const {
    const int64_t matrices = width * (2 * queries() + 2 * keys()) + (has_gate ? 3 : 2) * width * mlp_width;
    const int64_t biases = has_bias ? queries() + 2 * keys() + 2 * width + mlp_width : 0;
    return matrices + biases + (has_layer_norm ? 4 : 2) * width;
  }
  // The embedding, the last norm and the head.
  int64_t root_parameters() const {
    return vocabulary * width * (is_tied ? 1 : 2) + positions * width + (has_layer_norm ? 2 : 1) * width;
  }
  // Tensors of a block: entries of the optimizer's loop.
  int64_t block_tensors() const { return has_bias ? 12 : has_gate ? 9 : 8; }
  int64_t parameters() const { return layers * block_parameters() + root_parameters(); }
};

// A micro-batch, and how it is computed.
struct PassShape {
  int64_t batch = 1, sequence = 1;
  int64_t element = 2;             // bytes of an activation: 2 or 4
  bool has_wide_loss = true;       // the loss is computed in fp32
  bool is_fused = false;           // a compiler fuses element-wise operators
  bool is_flash = true;            // attention is one kernel, and keeps no scores in memory
  bool has_wide_residual = false;  // autocast keeps the residual stream and the norms in fp32
  int64_t slices = 1;              // ranks that divide the tokens between layers which are divided among them
  int64_t tokens() const { return batch * sequence; }
  double tokens_between() const { return static_cast<double>(tokens()) / static_cast<double>(slices); }
};

}  // namespace fsdp::plan
