// Defaults of the number of steps and of the learning rate, which follow from the model.
//
// A model without --model is small and begins with random weights: kSmallSteps steps let it write readable words, in
// two to three minutes on two cores. A wide model needs a lower learning rate than a narrow one, in inverse proportion
// (Yang et al., 2022, https://arxiv.org/abs/2203.03466). Models by --model, weights of --init-from and adapters keep
// the defaults in options.h.
#pragma once

#include <cstdint>

#include "options/options.h"

namespace trainer {

inline constexpr int64_t kSmallSteps = 1000;
inline constexpr double kHighestRate = 4e-3;  // up to kWidthOfHighestRate
inline constexpr int64_t kWidthOfHighestRate = 128;

// Sets --steps and --lr where they were not chosen. Needs the shape of the model, and the folder of a run that goes on:
// such a run keeps the defaults that it began with. RUN/config.json has their version; without a number it is 1, whose
// defaults are those in options.h.
void fill_training_defaults(RunOptions& options);

}  // namespace trainer
