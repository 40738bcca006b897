// Adam and AdamW on moments that are kept in blocks of 8 bits (block8.h): a block of 64 elements is unpacked, stepped
// and packed again before the next, in one pass over the memory.
//
// The bits are the same on every processor: fp32, no two operations rounded as one, no sums over elements. Plain
// memory; from any thread.
#pragma once

#include <cstdint>

namespace fsdp::optim {

// The numbers for element i, with gradient g = sign * gradient[i] + added_decay * parameter[i]:
//
//   first = beta1 * first + (1 - beta1) * g
//   second = beta2 * second + (1 - beta2) * g * g
//   parameter = kept * parameter - step_size * first / (sqrt(second) + eps)
//
// before the moments are packed: Kingma and Ba, https://arxiv.org/abs/1412.6980, in the order of the end of their
// section 2, where step_size and eps have the corrections of the bias. With a sign of 1 and no decay to add, g is the
// gradient.
struct AdamNumbers {
  float sign = 1;                    // -1 to maximise
  float added_decay = 0;             // Adam's weight decay
  float kept = 1;                    // of a parameter, after AdamW's weight decay
  float beta1, rest1, beta2, rest2;  // rest: 1 - beta
  float eps, step_size;
};

// The moments of the updated elements; a scale for each block.
struct Block8Moments {
  int8_t* first;
  float* first_scales;
  uint8_t* second;
  float* second_scales;
};

// The last block may be shorter than 64.
void block8_adam(const AdamNumbers& numbers, float* parameters, const float* gradients, int64_t numel,
                 const Block8Moments& moments);

}  // namespace fsdp::optim
