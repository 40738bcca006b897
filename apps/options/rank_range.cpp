#include "options/rank_range.h"

#include "options/numbers.h"

namespace trainer {

std::optional<RankRange> rank_range_in(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto least = whole_number_in(text.substr(0, colon)), most = whole_number_in(text.substr(colon + 1));
  if (!least || !most || *least < 1 || *most < *least || *most > kMostRanksOfJob) return std::nullopt;
  return RankRange{*least, *most};
}

}  // namespace trainer
