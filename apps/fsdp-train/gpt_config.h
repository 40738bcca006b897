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
inline int64_t parameter_numel(const Config& config) {
  const int64_t width = config.width;
  const int64_t norms = 2 * 2 * width;
  const int64_t attention = (3 * width * width + 3 * width) + (width * width + width);
  const int64_t mlp = (4 * width * width + 4 * width) + (4 * width * width + width);
  return (config.vocabulary + config.context) * width + config.layers * (norms + attention + mlp) + 2 * width;
}

}  // namespace gpt
