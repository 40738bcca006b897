// The shape of a GPT-2; no LibTorch, so that a command line can be checked before anything starts threads.
#pragma once

#include <cstdint>

namespace gpt {

struct Config {
  int64_t vocabulary = 256;
  int64_t context = 128;  // positions
  int64_t width = 128;    // a multiple of heads
  int64_t layers = 4;
  int64_t heads = 4;
};

// Parameter elements of a Gpt of this shape; the head is tied to the token embedding and counts once.
int64_t parameter_numel(const Config& config);

}  // namespace gpt
