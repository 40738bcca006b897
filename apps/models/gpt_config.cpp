#include "models/gpt_config.h"

namespace gpt {

int64_t parameter_numel(const Config& config) {
  const int64_t width = config.width;
  const int64_t norms = 2 * 2 * width;
  const int64_t attention = (3 * width * width + 3 * width) + (width * width + width);
  const int64_t mlp = (4 * width * width + 4 * width) + (4 * width * width + width);
  return (config.vocabulary + config.context) * width + config.layers * (norms + attention + mlp) + 2 * width;
}

}  // namespace gpt
