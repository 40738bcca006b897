#include "model_parts.h"

#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

namespace trainer {

namespace {

// Two norms, then the four linear layers, each a weight and a bias.
PlannedUnit block_of(int64_t width) {
  PlannedUnit unit(4, {width, false});
  const std::array<std::pair<int64_t, int64_t>, 4> linears = {
      {{width, 3 * width}, {width, width}, {width, 4 * width}, {4 * width, width}}};
  for (const auto& [in, out] : linears) {
    unit.push_back({in * out, true});
    unit.push_back({out, false});
  }
  return unit;
}

// What backward of a block reads, in widths a token. Both norms keep their inputs: 2. The linear layers keep theirs:
// qkv and up a norm's output each, the projection attention's, down that of gelu: 1 + 1 + 1 + 4. Gelu keeps its own
// input: 4. scaled_dot_product_attention keeps queries, keys, values and its output: 4. That is 17, as in the sum of
// Korthikanti et al. (2022, https://arxiv.org/abs/2205.05198, section 4.1) without its dropout masks and the scores of
// attention, which this kernel computes again.
constexpr int64_t kKeptWidths = 17;

}  // namespace

int64_t numel_of(const PlannedUnit& unit) {
  return std::accumulate(unit.begin(), unit.end(), int64_t{0},
                         [](int64_t sum, const PlannedParameter& parameter) { return sum + parameter.numel; });
}

ModelParts parts_of(const gpt::Config& config) {
  const int64_t width = config.width;
  ModelParts parts;
  parts.units.push_back({{config.vocabulary * width}, {config.context * width}, {width}, {width}});
  parts.units.resize(1 + static_cast<size_t>(config.layers), block_of(width));
  parts.embeddings_numel = (config.vocabulary + config.context) * width;
  parts.head_numel = 2 * width;
  parts.blocks_numel = config.layers * numel_of(block_of(width));
  parts.multiplying_numel = config.layers * 12 * width * width + config.vocabulary * width;
  parts.activation_numel = config.layers * kKeptWidths * width;
  parts.logits = config.vocabulary;
  return parts;
}

double flops_per_token(const gpt::Config& config) {
  const auto multiplied = static_cast<double>(parts_of(config).multiplying_numel);
  const double attention = static_cast<double>(config.layers * config.width) * static_cast<double>(config.context);
  return 6 * multiplied + 12 * attention;
}

}  // namespace trainer
