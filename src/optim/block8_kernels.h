// How this processor steps whole blocks (block8_adam.h) by vector instructions, with the bits of the plain loop.
#pragma once

#include "optim/block8_adam.h"

namespace fsdp::optim {

using Block8Kernel = void (*)(const AdamNumbers& numbers, float* parameters, const float* gradients, int64_t blocks,
                              const Block8Moments& moments);

// Null where there is none.
Block8Kernel block8_kernel();

// As block8_adam, by this one; null: by the plain loop.
void block8_adam_by(Block8Kernel kernel, const AdamNumbers& numbers, float* parameters, const float* gradients,
                    int64_t numel, const Block8Moments& moments);

// In a file of its own, which is compiled for these instructions; block8_kernel() knows whether they are there.
void block8_adam_avx2(const AdamNumbers& numbers, float* parameters, const float* gradients, int64_t blocks,
                      const Block8Moments& moments);

}  // namespace fsdp::optim
