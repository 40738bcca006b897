#include "base/repetition.h"

namespace fsdp {

namespace {

constexpr size_t kLongestPeriod = 4;
constexpr size_t kFewestRepeated = 8;

// How many rows after the first `period` ones from `begin` on go on like those.
size_t repeated_after(size_t begin, size_t period, size_t rows, const Shift& shift) {
  if (begin + period >= rows) return 0;
  const std::optional<int> step = shift(begin, begin + period);
  if (!step) return 0;
  size_t row = begin + period;
  while (row < rows && shift(row - period, row) == step) ++row;
  return row - begin - period;
}

}  // namespace

std::vector<Stretch> find_repetitions(size_t rows, const Shift& shift) {
  std::vector<Stretch> stretches;
  for (size_t row = 0; row < rows;) {
    Stretch stretch{row};
    for (size_t period = 1; period <= kLongestPeriod && stretch.repeated == 0; ++period) {
      const size_t repeated = repeated_after(row, period, rows, shift);
      if (repeated >= kFewestRepeated) stretch = {row, period, repeated};
    }
    stretches.push_back(stretch);
    row += stretch.shown + stretch.repeated;
  }
  return stretches;
}

}  // namespace fsdp
