#include <algorithm>
#include <limits>

#include "base/error.h"
#include "stages/cuts.h"

namespace fsdp::stages {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

bool is_more(double a, double b) { return a > b * (1 + 1e-9); }

// The costs of the first blocks: of none, of one, of two, ...
std::vector<double> sums_of(const std::vector<double>& costs) {
  std::vector<double> sums{0};
  for (double cost : costs) sums.push_back(sums.back() + cost);
  return sums;
}

// values[k][i]: the best value of the last blocks, from block i on, in k stages. `joined` gives the value of a stage of
// blocks [i, j) and of the best rest. `choices[k][i]` is the j that has it: the largest of equal ones.
struct CutTable {
  std::vector<std::vector<double>> values;
  std::vector<std::vector<size_t>> choices;
};

template <typename Joined>
CutTable best_cuts(size_t blocks, size_t stages, Joined joined) {
  CutTable table;
  table.values.assign(stages + 1, std::vector<double>(blocks + 1, kImpossible));
  table.choices.assign(stages + 1, std::vector<size_t>(blocks + 1, blocks));
  table.values[0][blocks] = 0;
  for (size_t k = 1; k <= stages; ++k) {
    for (size_t i = 0; i + k <= blocks; ++i) {
      for (size_t j = i + 1; j + k - 1 <= blocks; ++j) {
        const double value = joined(i, j, table.values[k - 1][j]);
        if (is_more(value, table.values[k][i])) continue;
        table.values[k][i] = std::min(value, table.values[k][i]);
        table.choices[k][i] = j;
      }
    }
  }
  return table;
}

}  // namespace

std::vector<int> even_cuts(const std::vector<double>& costs, int stages) {
  FSDP_CHECK(stages > 0 && static_cast<size_t>(stages) <= costs.size(),
             "found {} blocks for {} stages of a pipeline, expected at least 1 block per stage and 1 stage",
             costs.size(), stages);
  for (size_t i = 0; i < costs.size(); ++i)
    FSDP_CHECK(costs[i] >= 0 && costs[i] <= 1e100, "block {} has the cost {}, expected one from 0 to 1e100", i,
               costs[i]);
  const std::vector<double> sums = sums_of(costs);
  const auto count = static_cast<size_t>(stages);
  const auto cost_of = [&](size_t i, size_t j) { return sums[j] - sums[i]; };
  const CutTable largest =
      best_cuts(costs.size(), count, [&](size_t i, size_t j, double rest) { return std::max(cost_of(i, j), rest); });
  const double limit = largest.values[count][0];
  const CutTable squares = best_cuts(costs.size(), count, [&](size_t i, size_t j, double rest) {
    const double cost = cost_of(i, j);
    return is_more(cost, limit) ? kImpossible : cost * cost + rest;
  });
  std::vector<int> cuts;
  for (size_t first = 0, k = count; k > 0; --k) {
    const size_t end = squares.choices[k][first];
    cuts.push_back(static_cast<int>(end - first));
    first = end;
  }
  return cuts;
}

}  // namespace fsdp::stages
