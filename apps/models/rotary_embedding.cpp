#include "models/rotary_embedding.h"

#include <numbers>

namespace models {

namespace {

float scaled(float frequency, const RopeScaling& scaling) {
  const auto factor = static_cast<float>(scaling.factor), original = static_cast<float>(scaling.original_context);
  const auto low = static_cast<float>(scaling.low_frequency_factor);
  const auto high = static_cast<float>(scaling.high_frequency_factor);
  const float wavelength = 2 * std::numbers::pi_v<float> / frequency;
  if (wavelength < original / high) return frequency;
  if (wavelength > original / low) return frequency / factor;
  const float kept = (original / wavelength - low) / (high - low);
  return (1 - kept) * frequency / factor + kept * frequency;
}

}  // namespace

torch::Tensor Rotation::turn(const torch::Tensor& heads) const {
  const torch::Tensor cosine = cosines.to(heads.scalar_type()), sine = sines.to(heads.scalar_type());
  const auto halves = heads.chunk(2, -1);
  return torch::cat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine}, -1);
}

torch::Tensor rotary_frequencies(const ModelConfig& config) {
  // In fp32 from the start, as the models were trained: at position 100,000 the last bit of a frequency turns far.
  const int64_t width = config.head_width_or_default();
  const torch::Tensor exponents = torch::arange(0, width, 2, torch::kFloat32) / width;
  const torch::Tensor frequencies = torch::pow(config.rope_theta, exponents).reciprocal();
  if (!config.rope_scaling) return frequencies;
  auto each = frequencies.accessor<float, 1>();
  for (int64_t pair = 0; pair < each.size(0); ++pair) each[pair] = scaled(each[pair], *config.rope_scaling);
  return frequencies;
}

Rotation rotation_of(const torch::Tensor& frequencies, int64_t first, int64_t length) {
  const torch::Tensor positions = torch::arange(first, first + length, frequencies.options());
  const torch::Tensor angles = torch::outer(positions, frequencies);
  return {angles.cos(), angles.sin()};
}

}  // namespace models
