// Runs of many layers, by runs of few: each layer adds the same.
#pragma once

#include <cstdint>
#include <string>

#include "options/options.h"

namespace trainer {

inline constexpr int64_t kFewLayers = 8;

inline bool layers_are_alike(const RunOptions& options) {
  const std::string& recomputed = options.activation_checkpoint;
  return options.freeze.empty() && (recomputed == "none" || recomputed == "selective" || recomputed == "all");
}

// The line through a run of few layers and one of twice as many. Where layers differ, or there are no more, the run
// itself. `bytes(options)` is a number.
template <typename Bytes>
double along_layers(const RunOptions& options, const Bytes& bytes) {
  const int64_t more = options.model.layers - 2 * kFewLayers;
  if (!layers_are_alike(options) || more <= 0) return bytes(options);
  RunOptions few = options, twice = options;
  few.model.layers = kFewLayers;
  twice.model.layers = 2 * kFewLayers;
  const double of_twice = bytes(twice);
  return of_twice + (of_twice - bytes(few)) / kFewLayers * static_cast<double>(more);
}

}  // namespace trainer
