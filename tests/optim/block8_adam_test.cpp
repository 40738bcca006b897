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
#include "optim/block8_kernels.h"

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
    const bool as_is = by.sign == 1 && by.added_decay == 0;
    const float g = as_is ? gradients[begin + i] : by.sign * gradients[begin + i] + by.added_decay * parameter;
    first[i] = by.beta1 * first[i] + by.rest1 * g;
    second[i] = by.beta2 * second[i] + by.rest2 * (g * g);
    parameter = by.kept * parameter - by.step_size * first[i] / (std::sqrt(second[i]) + by.eps);
  }
  state.scales[block] = block8_pack(first, state.first.data() + begin);
  state.others[block] = block8_pack(second, state.second.data() + begin);
}

std::vector<AdamNumbers> kinds() {
  const AdamNumbers adamw{
      .kept = 0.99F, .beta1 = 0.9F, .rest1 = 0.1F, .beta2 = 0.99F, .rest2 = 0.01F, .eps = 1e-8F, .step_size = 1e-2F};
  AdamNumbers adam = adamw, maximised = adamw;
  adam.kept = 1, adam.added_decay = 0.1F;
  maximised.sign = -1;
  return {adamw, adam, maximised};
}

// The plain loop, and this processor's.
std::vector<Block8Kernel> all_kernels() {
  std::vector<Block8Kernel> kernels{nullptr};
  if (block8_kernel() != nullptr) kernels.push_back(block8_kernel());
  return kernels;
}

// A step by `kernel` and one of each block by itself.
void step_both(Block8Kernel kernel, const AdamNumbers& numbers, const std::vector<float>& gradients, State& found,
               State& expected) {
  block8_adam_by(kernel, numbers, found.parameters.data(), gradients.data(), static_cast<int64_t>(gradients.size()),
                 found.moments());
  for (size_t begin = 0; begin < gradients.size(); begin += 64) step_block(numbers, expected, gradients, begin);
}

TEST(Block8Adam, HasTheBitsOfEachBlockByItself) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const Block8Kernel kernel : all_kernels()) {
    for (const AdamNumbers& numbers : kinds()) {
      for (size_t count : {1, 63, 64, 65, 100, 640, 1000}) {
        State found(count);
        for (float& parameter : found.parameters) parameter = normal(random);
        State expected = found;
        for (int step = 0; step < 5; ++step) {
          std::vector<float> gradients(count);
          for (float& gradient : gradients) gradient = std::pow(normal(random), 5.0F);
          if (step == 1) gradients[count / 2] = 0;
          if (step == 2) std::fill(gradients.begin(), gradients.end(), 0);
          if (step == 3) gradients[count / 3] = std::numeric_limits<float>::infinity();
          step_both(kernel, numbers, gradients, found, expected);
          EXPECT_TRUE(found == expected) << count << " elements, step " << step;
        }
      }
    }
  }
}

// Floats around each place where another code begins, and their roots.
std::vector<float> around_all_beginnings() {
  std::vector<float> floats;
  const auto add_around = [&](float middle) {
    for (int i = 0; i < 3; ++i) middle = std::nextafter(middle, 0.0F);
    for (int i = 0; i < 7; ++i, middle = std::nextafter(middle, 2.0F)) floats.push_back(middle);
  };
  for (int code = 0; code < 127; ++code) {
    add_around((block8_value(static_cast<int8_t>(code)) + block8_value(static_cast<int8_t>(code + 1))) / 2);
  }
  for (int code = 0; code < 255; ++code) {
    add_around(
        std::sqrt((block8_value(static_cast<uint8_t>(code)) + block8_value(static_cast<uint8_t>(code + 1))) / 2));
  }
  return floats;
}

// Of moments that are the gradient and its square, in blocks of scale 1 and of others.
TEST(Block8Adam, HasTheCodesOfEachBlockByItselfAroundTheirBeginnings) {
  const AdamNumbers numbers{.beta1 = 0, .rest1 = 1, .beta2 = 0, .rest2 = 1, .eps = 1e-8F, .step_size = 1e-2F};
  const std::vector<float> around = around_all_beginnings();
  for (const Block8Kernel kernel : all_kernels()) {
    for (const float largest : {1.0F, 3.0F, 1e-12F, 1e-15F, 1e15F}) {
      std::vector<float> gradients;
      for (const float ratio : around) {
        if (gradients.size() % 64 == 0) gradients.push_back(largest);
        gradients.push_back(ratio * largest * (gradients.size() % 3 == 0 ? -1.0F : 1.0F));
      }
      State found(gradients.size()), expected(gradients.size());
      step_both(kernel, numbers, gradients, found, expected);
      EXPECT_TRUE(found == expected) << largest;
    }
  }
}

}  // namespace
}  // namespace fsdp::optim
