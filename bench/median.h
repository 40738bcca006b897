// Measurements that other programs disturb: the middle one, and how far they lie apart.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Half the distance between the quartiles, as a share of the median, as in compare/spread.py.
inline double spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], place - static_cast<double>(below));
  };
  return (at(0.75) - at(0.25)) / 2 / std::abs(at(0.5));
}

// Two counters: the median of the measurements as `name`, in units of 1 / `scale`, and their spread as `name`_spread.
inline void add_counters(benchmark::State& state, const std::string& name, const std::vector<double>& values,
                         double scale = 1) {
  state.counters[name] = scale * median(values);
  state.counters[name + "_spread"] = spread(values);
}
