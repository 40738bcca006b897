#include "options/did_you_mean.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainer {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = last;
    last = row;
  }
  return last[b.size()];
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  std::string best;
  size_t least = word.size() / 3 + 1;
  for (const std::string& name : names) {
    const size_t distance = edit_distance(word, name);
    if (distance >= least) continue;
    least = distance;
    best = name;
  }
  return best;
}

std::string with_hint(const std::string& statement, const std::string& meant) {
  return meant.empty() ? fmt::format("{}.", statement) : fmt::format("{}; did you mean {}?", statement, meant);
}

}  // namespace trainer
