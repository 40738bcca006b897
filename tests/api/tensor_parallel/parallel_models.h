// A small transformer whose layers are divided among ranks, the same one of plain layers, and comparisons of the two.
#pragma once

#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::parallel_models {

namespace nn = torch::nn;
using torch::Tensor;

// Features of a part are a multiple of 16, the width of AVX-512 in floats: element-wise functions have the same bits.
inline constexpr int64_t kHeads = 4, kKeyHeads = 2, kHeadSize = 16, kWidth = kHeads * kHeadSize, kInner = 128;
inline constexpr int64_t kVocabulary = 67, kSequence = 8, kBatch = 3;  // 67: no number of parts divides it
inline constexpr int64_t kFused = (kHeads + 2 * kKeyHeads) * kHeadSize;

// Causal attention. [batch, sequence, heads * kHeadSize] each; a key head is used by as many heads in turn.
inline Tensor attention(const Tensor& queries, const Tensor& keys, const Tensor& values) {
  std::vector<Tensor> heads;
  const int64_t count = queries.size(-1) / kHeadSize, group = queries.size(-1) / keys.size(-1);
  const Tensor hidden = torch::ones({queries.size(1), queries.size(1)}, queries.options().dtype(torch::kBool)).triu(1);
  for (int64_t head = 0; head < count; ++head) {
    const auto of_head = [](const Tensor& all, int64_t number) {
      return all.narrow(-1, number * kHeadSize, kHeadSize).contiguous();
    };
    const Tensor scores = of_head(queries, head).matmul(of_head(keys, head / group).transpose(1, 2)) / 4;
    heads.push_back(scores.masked_fill(hidden, -1e9).softmax(-1).matmul(of_head(values, head / group)));
  }
  return torch::cat(heads, -1);
}

inline Tensor gated(const std::vector<Tensor>& gate_and_up) { return torch::silu(gate_and_up[0]) * gate_and_up[1]; }

// The model's layers in the order in which they draw their first values, divided or plain.
struct PlainModel : nn::Module {
  PlainModel()
      : tokens(nn::EmbeddingOptions(kVocabulary, kWidth)),
        fused(nn::LinearOptions(kWidth, kFused)),
        out(nn::LinearOptions(kWidth, kWidth)),
        gate_and_up(nn::LinearOptions(kWidth, 2 * kInner).bias(false)),
        down(nn::LinearOptions(kInner, kWidth)),
        first(nn::LayerNormOptions({kWidth})),
        second(nn::LayerNormOptions({kWidth})) {
    register_module("tokens", tokens), register_module("fused", fused), register_module("out", out);
    register_module("gate_and_up", gate_and_up), register_module("down", down);
    register_module("first", first), register_module("second", second);
  }
  Tensor loss(const Tensor& input, const Tensor& targets) {
    Tensor x = tokens(input);
    const auto qkv = fused(first(x)).split_with_sizes({kWidth, kKeyHeads * kHeadSize, kKeyHeads * kHeadSize}, -1);
    x = x + out(attention(qkv[0], qkv[1], qkv[2]));
    x = x + down(gated(gate_and_up(second(x)).split_with_sizes({kInner, kInner}, -1)));
    return linear_cross_entropy(x, tokens->weight, targets);
  }
  nn::Embedding tokens;
  nn::Linear fused, out, gate_and_up, down;
  nn::LayerNorm first, second;
};

struct DividedModel : nn::Module {
  DividedModel(const World& axis_, const TensorParallelOptions& options)
      : axis(axis_),
        parallel(options),
        tokens(nn::EmbeddingOptions(kVocabulary, kWidth), axis_, options),
        fused(nn::LinearOptions(kWidth, kFused), axis_,
              with_blocks({{kHeads, kHeadSize}, {kKeyHeads, kHeadSize}, {kKeyHeads, kHeadSize}})),
        out(nn::LinearOptions(kWidth, kWidth), axis_, options),
        gate_and_up(nn::LinearOptions(kWidth, 2 * kInner).bias(false), axis_, with_blocks({{kInner}, {kInner}})),
        down(nn::LinearOptions(kInner, kWidth), axis_, options),
        first(nn::LayerNormOptions({kWidth})),
        second(nn::LayerNormOptions({kWidth})) {
    register_module("tokens", tokens), register_module("fused", fused), register_module("out", out);
    register_module("gate_and_up", gate_and_up), register_module("down", down);
    register_module("first", first), register_module("second", second);
  }
  Tensor loss(const Tensor& input, const Tensor& targets) {
    Tensor x = tokens(input);
    const auto qkv = fused(normed(first, x)).split_with_sizes(fused->block_features(), -1);
    x = x + out(attention(qkv[0], qkv[1], qkv[2]));
    x = x + down(gated(gate_and_up(normed(second, x)).split_with_sizes(gate_and_up->block_features(), -1)));
    if (parallel.sequence_parallel) x = differentiable::all_gather(x, axis, 1, differentiable::ResultUse::Alike);
    return linear_cross_entropy(x, tokens->weight, targets, {.divided_over = axis, .parts = parallel.parts});
  }
  Tensor normed(nn::LayerNorm& norm, const Tensor& x) const {
    return on_sequence_slices(x, {norm->weight, norm->bias}, axis, parallel, [](const auto& part, const auto& of) {
      return torch::layer_norm(part, {kWidth}, of[0], of[1]);
    });
  }
  TensorParallelOptions with_blocks(std::vector<FeatureBlock> blocks) const {
    TensorParallelOptions options = parallel;
    options.blocks = std::move(blocks);
    return options;
  }
  World axis;
  TensorParallelOptions parallel;
  ParallelEmbedding tokens;
  ColumnParallelLinear fused;
  RowParallelLinear out;
  ColumnParallelLinear gate_and_up;
  RowParallelLinear down;
  nn::LayerNorm first, second;
};

inline std::map<std::string, ParameterDivision> divisions_of(const nn::Module& module) {
  std::map<std::string, ParameterDivision> all;
  const auto add = [&](const std::string& prefix, const nn::Module* of) {
    const auto* divided = dynamic_cast<const DividedModule*>(of);
    if (divided == nullptr) return;
    for (const ParameterDivision& one : divided->divisions()) all[prefix + one.parameter] = one;
  };
  add("", &module);
  for (const auto& item : module.named_modules("", /*include_self=*/false)) add(item.key() + ".", item.value().get());
  return all;
}

// The rank's part of a whole tensor.
inline Tensor part_of(const Tensor& whole, const ParameterDivision& division) {
  std::vector<Tensor> parts;
  EXPECT_EQ(whole.sizes().vec(), division.shape);
  for (const auto& [begin, end] : division.ranges) parts.push_back(whole.narrow(division.dim, begin, end - begin));
  return torch::cat(parts, division.dim);
}

using Values = std::map<std::string, Tensor>;

inline Values weights_of(const nn::Module& module) {
  Values all;
  for (const auto& item : module.named_parameters()) all[item.key()] = item.value().detach().clone();
  return all;
}

inline Values gradients_of(const nn::Module& module) {
  Values all;
  for (const auto& item : module.named_parameters()) all[item.key()] = item.value().grad().clone();
  return all;
}

// Bits, or a difference of at most `tolerance`, of a rank's values and its parts of whole ones.
inline void expect_parts(const Values& found, const Values& whole, const std::map<std::string, ParameterDivision>& by,
                         double tolerance = 0) {
  ASSERT_EQ(found.size(), whole.size());
  for (const auto& [name, value] : found) {
    const Tensor expected = by.contains(name) ? part_of(whole.at(name), by.at(name)) : whole.at(name);
    if (tolerance == 0) EXPECT_TRUE(torch::equal(value, expected)) << name << (value - expected).abs().max();
    if (tolerance > 0) EXPECT_LT((value - expected).abs().max().item<double>(), tolerance) << name;
  }
}

inline std::pair<Tensor, Tensor> batch_of(int64_t number) {
  const auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(number));
  const auto draw = [&] { return torch::randint(0, kVocabulary, {kBatch, kSequence}, generator, torch::kInt64); };
  Tensor input = draw(), targets = draw();
  targets[0][0] = -100;
  return {input, targets};
}

// All that a training computes.
struct Outcome {
  Tensor losses;
  Values gradients, weights;  // of the last step, and after it
};

template <typename Model>
Outcome train(Model& model, int steps = 3) {
  const torch::Device device = model.parameters()[0].device();
  torch::optim::AdamW optimizer(model.parameters(), torch::optim::AdamWOptions(1e-2));
  Outcome outcome;
  std::vector<Tensor> losses;
  for (int step = 0; step < steps; ++step) {
    const auto [input, targets] = batch_of(step);
    optimizer.zero_grad();
    const Tensor loss = model.loss(input.to(device), targets.to(device));
    loss.backward();
    optimizer.step();
    losses.push_back(loss.detach());
  }
  return {torch::stack(losses), gradients_of(model), weights_of(model)};
}

}  // namespace fsdp::parallel_models
