// The ways of this processor to step whole blocks (block8_adam.h) by vector instructions; all have the bits of the
// plain loop.
#pragma once

#include "optim/block8_adam.h"
#include "optim/block8_map.h"

namespace fsdp::optim {

using Block8Kernel = void (*)(const AdamNumbers& numbers, float* parameters, const float* gradients, int64_t blocks,
                              const Block8Moments& moments, const Block8Map& signed_map, const Block8Map& unsigned_map);

// This processor's by number, the fastest first; null behind the last.
Block8Kernel block8_kernel(int number);

// As block8_adam, by this one; null: by the plain loop.
void block8_adam_by(Block8Kernel kernel, const AdamNumbers& numbers, float* parameters, const float* gradients,
                    int64_t numel, const Block8Moments& moments);

// Each in a file of its own, which is compiled for these instructions; block8_kernels() knows whether they are there.
void block8_adam_avx2(const AdamNumbers& numbers, float* parameters, const float* gradients, int64_t blocks,
                      const Block8Moments& moments, const Block8Map& signed_map, const Block8Map& unsigned_map);
void block8_adam_avx512(const AdamNumbers& numbers, float* parameters, const float* gradients, int64_t blocks,
                        const Block8Moments& moments, const Block8Map& signed_map, const Block8Map& unsigned_map);

}  // namespace fsdp::optim
