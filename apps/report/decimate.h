// Curves of any length as so many points that a picture shows no difference.
#pragma once

#include <cstddef>
#include <vector>

namespace trainer {

// Neighbouring records are drawn as one, in groups of the same size but the last.
struct Grid {
  size_t count = 0;     // of records
  size_t together = 1;  // records per group
  size_t groups() const { return (count + together - 1) / together; }
  size_t first(size_t group) const { return group * together; }
  size_t end(size_t group) const { return group + 1 == groups() ? count : (group + 1) * together; }
  size_t middle(size_t group) const { return (first(group) + end(group) - 1) / 2; }
};

// At most `most` groups. Records come in the same order as their steps, and mostly as far apart, so that a group is
// about a column of the picture.
Grid grid_of(size_t count, size_t most);

// One number per group: of the finite values in it, NaN where there is none. Between `low` and `high` lies every value,
// so that no spike is lost.
struct Band {
  std::vector<double> mean, low, high;
};

Band band_of(const std::vector<double>& values, const Grid& grid);

}  // namespace trainer
