// The forward passes of an evaluation.
#pragma once

#include <algorithm>
#include <cstdint>

namespace trainer {

// Windows of a pass, each of `context` tokens. More are not faster. They decide digits, and so depend on the model
// alone.
inline int64_t windows_of_pass(int64_t context) {
  constexpr int64_t kMostWindows = 8, kMostTokens = 8192;
  return std::clamp<int64_t>(kMostTokens / context, 1, kMostWindows);
}

}  // namespace trainer
