// Runs of many layers, by runs of few: each layer adds the same.
#pragma once

#include "options/options.h"

namespace trainer {

inline constexpr int64_t kFewLayers = 8;

// The line through a run of few layers and one of twice as many. Where layers differ, or there are no more, the run
// itself. `bytes(options)` is a number.
template <typename Bytes>
double along_layers(const Options& options, const Bytes& bytes) {
  const bool all_are_alike = options.freeze.empty() &&
                             (options.activation_checkpoint == "none" || options.activation_checkpoint == "selective" ||
                              options.activation_checkpoint == "all");
  const int64_t more = options.model.layers - 2 * kFewLayers;
  if (!all_are_alike || more <= 0) return bytes(options);
  Options few = options, twice = options;
  few.model.layers = kFewLayers;
  twice.model.layers = 2 * kFewLayers;
  const double of_twice = bytes(twice);
  return of_twice + (of_twice - bytes(few)) / kFewLayers * static_cast<double>(more);
}

}  // namespace trainer
