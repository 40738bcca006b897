// The keys and values of the tokens that a model has seen: with them the next token costs the forward of one token.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace models {

// For inference: written in place, so no gradient goes through it. Memory grows with the tokens, by doubling. One
// thread at a time.
class KeyValueCache {
 public:
  // A divided model uses more: one for each layer and part.
  explicit KeyValueCache(int64_t layers) : layers_(static_cast<size_t>(layers)) {}

  int64_t length() const { return length_; }  // tokens that all layers have
  // Forgets all tokens after the first `length`, 0 <= length <= length().
  void truncate(int64_t length) { length_ = length; }
  // The model says that all its layers have appended `count` tokens.
  void advance(int64_t count) { length_ += count; }

  struct Layer {
    torch::Tensor keys, values;
  };
  // Appends the keys and values of further tokens, [batch, heads, count, head_width], and returns all of the layer's,
  // [batch, heads, length() + count, head_width]: views of the cache.
  Layer append(int64_t layer, const torch::Tensor& keys, const torch::Tensor& values);
  // For a model that keeps no keys: appends tokens [batch, count], and returns all, [batch, length() + count].
  torch::Tensor append_tokens(const torch::Tensor& tokens);

 private:
  int64_t length_ = 0;
  std::vector<Layer> layers_;  // each [batch, heads, capacity, head_width]
};

// The place of one layer in a cache; none: a pass that keeps nothing.
struct CachedLayer {
  KeyValueCache* cache = nullptr;
  int64_t layer = 0;
};

// Attention of queries [batch, heads, count, head_width] to keys and values [batch, key_value_heads, count,
// head_width], each token to itself and to those before it, in the cache as well. Returns [batch, heads, count,
// head_width].
torch::Tensor causal_attention(const torch::Tensor& queries, const torch::Tensor& keys, const torch::Tensor& values,
                               double dropout, const CachedLayer& place);

}  // namespace models
