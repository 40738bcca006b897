// The loss on text that is not trained on.
#pragma once

#include <optional>

#include "training/training.h"

namespace trainer {

// The mean loss over --validation-windows windows spread evenly over the held-back tokens, fewer where they have fewer;
// none when nothing is held back. The ranks share the work; the result has the same digits on any number of them. A
// collective.
std::optional<double> validation_loss(Training& training);

}  // namespace trainer
