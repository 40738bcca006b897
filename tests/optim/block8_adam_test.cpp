// A step on moments in blocks is, bit for bit, that of each block by itself: unpacked, stepped and packed.
#include "optim/block8_adam.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "optim/block8.h"

namespace fsdp::optim {
namespace {

struct State {
  explicit State(size_t numel)
      : parameters(numel), first(numel), second(numel), scales(numel / 64 + 1), others(scales) {}

  Block8Moments moments() { return {first.data(), scales.data(), second.data(), others.data()}; }
  bool operator==(const State& other) const {
    const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
      return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;  // NaN is NaN
    };
    return first == other.first && second == other.second && same(parameters, other.parameters) &&
           same(scales, other.scales) && same(others, other.others);
  }

  std::vector<float> parameters;
  std::vector<int8_t> first;
  std::vector<uint8_t> second;
  std::vector<float> scales, others;
};

// The formula of the header, written once more.
void step_block(const AdamNumbers& by, State& state, const std::vector<float>& gradients, size_t begin) {
  const size_t numel = std::min<size_t>(64, gradients.size() - begin), block = begin / 64;
  std::vector<float> first(numel), second(numel);
  block8_unpack(std::span<const int8_t>(state.first).subspan(begin, numel), state.scales[block], first.data());
  block8_unpack(std::span<const uint8_t>(state.second).subspan(begin, numel), state.others[block], second.data());
  for (size_t i = 0; i < numel; ++i) {
    float& parameter = state.parameters[begin + i];
    const float g = by.sign * gradients[begin + i] + by.added_decay * parameter;
    first[i] = by.beta1 * first[i] + by.rest1 * g;
    second[i] = by.beta2 * second[i] + by.rest2 * (g * g);
    const float root = by.root_factor * std::sqrt(second[i]) + by.eps;
    parameter = by.kept * parameter - by.step_size * first[i] / root;
  }
  state.scales[block] = block8_pack(first, state.first.data() + begin);
  state.others[block] = block8_pack(second, state.second.data() + begin);
}

std::vector<AdamNumbers> kinds() {
  const AdamNumbers adamw{.kept = 0.99F,
                          .beta1 = 0.9F,
                          .rest1 = 0.1F,
                          .beta2 = 0.99F,
                          .rest2 = 0.01F,
                          .root_factor = 3,
                          .eps = 1e-8F,
                          .step_size = 1e-2F};
  AdamNumbers adam = adamw, maximised = adamw;
  adam.kept = 1, adam.added_decay = 0.1F;
  maximised.sign = -1;
  return {adamw, adam, maximised};
}

TEST(Block8Adam, HasTheBitsOfEachBlockByItself) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const AdamNumbers& numbers : kinds()) {
    for (size_t count : {1, 63, 64, 65, 100, 640, 1000}) {
      State found(count);
      for (float& parameter : found.parameters) parameter = normal(random);
      State expected = found;
      for (int step = 0; step < 4; ++step) {
        std::vector<float> gradients(count);
        for (float& gradient : gradients) gradient = std::pow(normal(random), 5.0F);
        if (step == 1) gradients[count / 2] = 0;
        if (step == 2) std::fill(gradients.begin(), gradients.end(), 0);
        if (step == 3) gradients[count / 3] = std::numeric_limits<float>::infinity();
        block8_adam(numbers, found.parameters.data(), gradients.data(), static_cast<int64_t>(count), found.moments());
        for (size_t begin = 0; begin < count; begin += 64) step_block(numbers, expected, gradients, begin);
        EXPECT_TRUE(found == expected) << count << " elements, step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace fsdp::optim
