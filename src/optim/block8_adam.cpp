#include "optim/block8_adam.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>

#include "optim/block8.h"
#include "optim/block8_kernels.h"

namespace fsdp::optim {

namespace {

void step_element(const AdamNumbers& by, float& parameter, float gradient, float& first, float& second) {
  const bool as_is = by.sign == 1 && by.added_decay == 0;
  const float g = as_is ? gradient : by.sign * gradient + by.added_decay * parameter;
  first = by.beta1 * first + by.rest1 * g;
  second = by.beta2 * second + by.rest2 * (g * g);
  parameter = by.kept * parameter - by.step_size * first / (std::sqrt(second) + by.eps);
}

// The moments of block `block`, of `numel` elements.
void step_block(const AdamNumbers& numbers, float* parameters, const float* gradients, int64_t block, size_t numel,
                const Block8Moments& moments) {
  const int64_t begin = block * kBlock8Numel;
  std::array<float, kBlock8Numel> first, second;
  block8_unpack(std::span<const int8_t>(moments.first + begin, numel), moments.first_scales[block], first.data());
  block8_unpack(std::span<const uint8_t>(moments.second + begin, numel), moments.second_scales[block], second.data());
  for (size_t i = 0; i < numel; ++i) {
    step_element(numbers, parameters[begin + static_cast<int64_t>(i)], gradients[begin + static_cast<int64_t>(i)],
                 first[i], second[i]);
  }
  moments.first_scales[block] = block8_pack(std::span(first).first(numel), moments.first + begin);
  moments.second_scales[block] = block8_pack(std::span(second).first(numel), moments.second + begin);
}

}  // namespace

Block8Kernel block8_kernel() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return block8_adam_avx2;
#endif
  return nullptr;
}

void block8_adam(const AdamNumbers& numbers, float* parameters, const float* gradients, int64_t numel,
                 const Block8Moments& moments) {
  static const Block8Kernel kernel = block8_kernel();
  block8_adam_by(kernel, numbers, parameters, gradients, numel, moments);
}

void block8_adam_by(Block8Kernel kernel, const AdamNumbers& numbers, float* parameters, const float* gradients,
                    int64_t numel, const Block8Moments& moments) {
  int64_t done = 0;
  if (kernel != nullptr) {
    done = numel / kBlock8Numel;
    kernel(numbers, parameters, gradients, done, moments);
  }
  for (; done * kBlock8Numel < numel; ++done) {
    step_block(numbers, parameters, gradients, done,
               static_cast<size_t>(std::min(kBlock8Numel, numel - done * kBlock8Numel)), moments);
  }
}

}  // namespace fsdp::optim
