#include "report/part_colours.h"

#include <algorithm>

namespace trainer {

size_t part_colour(std::string_view part) {
  return static_cast<size_t>(std::ranges::find(kMemoryParts, part) - kMemoryParts.begin());
}

}  // namespace trainer
