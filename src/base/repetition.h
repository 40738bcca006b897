// Finds what repeats in a list of rows, so that many alike are shown as one and a number.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace fsdp {

// The rows [begin, begin + shown) and then `repeated` more that go on like them.
struct Stretch {
  size_t begin = 0;
  size_t shown = 1;
  size_t repeated = 0;
};

// By how much row `to` is row `from` moved on; none when they differ otherwise.
using Shift = std::function<std::optional<int>(size_t from, size_t to)>;

// Divides `rows` rows into stretches. A few rows alike stay as they are.
std::vector<Stretch> find_repetitions(size_t rows, const Shift& shift);

}  // namespace fsdp
