// The divisions that a model allows. No LibTorch, as model_config.h.
#pragma once

#include <string>
#include <vector>

#include "models/model_config.h"

namespace models {

// A Division without its world.
struct DivisionShape {
  int ranks = 1;  // of the axis
  int parts = 1;
  bool sequence_parallel = false;
};

// Everything that is wrong with a division of this model, a sentence each, with numbers that would do; none for one
// that make_model accepts. `config` is one without problems().
std::vector<std::string> division_problems(const ModelConfig& config, const DivisionShape& shape);

}  // namespace models
