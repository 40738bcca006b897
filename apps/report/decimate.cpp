#include "report/decimate.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainer {

Grid grid_of(size_t count, size_t most) {
  return {.count = count, .together = std::max<size_t>(1, (count + most - 1) / most)};
}

Band band_of(const std::vector<double>& values, const Grid& grid) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Band band;
  for (size_t group = 0; group < grid.groups(); ++group) {
    double sum = 0, low = kInfinity, high = -kInfinity;
    size_t finite = 0;
    for (size_t i = grid.first(group); i < grid.end(group); ++i) {
      if (!std::isfinite(values[i])) continue;
      sum += values[i];
      low = std::min(low, values[i]);
      high = std::max(high, values[i]);
      ++finite;
    }
    const double nothing = std::numeric_limits<double>::quiet_NaN();
    band.mean.push_back(finite > 0 ? sum / static_cast<double>(finite) : nothing);
    band.low.push_back(finite > 0 ? low : nothing);
    band.high.push_back(finite > 0 ? high : nothing);
  }
  return band;
}

}  // namespace trainer
