// Shapes of published models, each with its source.
#pragma once

#include <string>
#include <vector>

#include "models/model_config.h"

namespace models {

struct NamedSize {
  std::string name;
  ModelConfig config;
};

// In the order of lists: by family, then by age and size.
std::vector<NamedSize> published_sizes();

}  // namespace models
