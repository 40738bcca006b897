#include "models/key_value_cache.h"

#include <torch/torch.h>

#include <algorithm>

namespace models {

namespace {

constexpr int64_t kLength = 2;  // the dimension of tokens

// `kept` tokens of `old` in memory for `capacity`, made for tensors like `added`.
torch::Tensor grown(const torch::Tensor& old, const torch::Tensor& added, int64_t kept, int64_t capacity) {
  torch::Tensor larger = torch::empty({added.size(0), added.size(1), capacity, added.size(3)}, added.options());
  if (kept > 0) larger.narrow(kLength, 0, kept).copy_(old.narrow(kLength, 0, kept));
  return larger;
}

// One query for each head. Heads that share keys and values are rows of one product: nothing is copied.
torch::Tensor attention_of_one(const torch::Tensor& queries, const KeyValueCache::Layer& all) {
  const int64_t heads = all.keys.size(1);
  const torch::Tensor rows = queries.reshape({queries.size(0), heads, queries.size(1) / heads, queries.size(3)});
  return torch::scaled_dot_product_attention(rows, all.keys, all.values).reshape(queries.sizes());
}

}  // namespace

KeyValueCache::Layer KeyValueCache::append(int64_t layer, const torch::Tensor& keys, const torch::Tensor& values) {
  constexpr int64_t kLeast = 64;
  const auto place = static_cast<size_t>(layer);
  layers_.resize(std::max(layers_.size(), place + 1));
  Layer& all = layers_[place];
  const int64_t count = keys.size(kLength), needed = length_ + count;
  if (!all.keys.defined() || all.keys.size(kLength) < needed) {
    const int64_t capacity = std::max(needed, all.keys.defined() ? 2 * all.keys.size(kLength) : kLeast);
    all = {grown(all.keys, keys, length_, capacity), grown(all.values, values, length_, capacity)};
  }
  all.keys.narrow(kLength, length_, count).copy_(keys);
  all.values.narrow(kLength, length_, count).copy_(values);
  return {all.keys.narrow(kLength, 0, needed), all.values.narrow(kLength, 0, needed)};
}

torch::Tensor KeyValueCache::append_tokens(const torch::Tensor& tokens) {
  const torch::Tensor as_keys = tokens.unsqueeze(1).unsqueeze(-1);
  return append(0, as_keys, as_keys).keys.flatten(1);
}

torch::Tensor causal_attention(const torch::Tensor& queries, const torch::Tensor& keys, const torch::Tensor& values,
                               double dropout, const CachedLayer& place) {
  const bool grouped = queries.size(1) != keys.size(1);
  if (place.cache == nullptr) {
    return torch::scaled_dot_product_attention(queries, keys, values, /*attn_mask=*/{}, dropout, /*is_causal=*/true,
                                               /*scale=*/std::nullopt, /*enable_gqa=*/grouped);
  }
  const int64_t before = place.cache->length(), count = queries.size(kLength);
  const KeyValueCache::Layer all = place.cache->append(place.layer, keys, values);
  if (count == 1) return attention_of_one(queries, all);
  // LibTorch's causal mask is that of as many queries as keys.
  std::optional<torch::Tensor> mask;
  if (before > 0) {
    mask = torch::ones({count, before + count}, queries.options().dtype(torch::kBool)).tril(/*diagonal=*/before);
  }
  return torch::scaled_dot_product_attention(queries, all.keys, all.values, mask, /*dropout_p=*/0.0,
                                             /*is_causal=*/!mask.has_value(), /*scale=*/std::nullopt, grouped);
}

}  // namespace models
