#include "models/divided_parameters.h"

#include <algorithm>

namespace models {

namespace {

// The first ones have one more, if the parts do not divide them.
int64_t first_of_part(int64_t heads, int64_t parts, int64_t part) {
  return part * (heads / parts) + std::min(part, heads % parts);
}

}  // namespace

int64_t heads_of(const DividedHeads& whole, const TensorRank& place) {
  const int64_t of_rank = place.parts / place.ranks, first = place.rank * of_rank, end = first + of_rank;
  const bool shares = whole.head_size > 1 && whole.heads > 0 && whole.heads < place.parts;
  if (!shares) return first_of_part(whole.heads, place.parts, end) - first_of_part(whole.heads, place.parts, first);
  const int64_t sharers = place.parts / whole.heads;
  return (end - 1) / sharers - first / sharers + 1;
}

Parameter part_of(const Parameter& whole, const TensorRank& place) {
  Parameter part = whole;
  if (!whole.divided) return part;
  int64_t& size = part.shape[whole.divided->dim];
  size = 0;
  for (const DividedHeads& block : whole.divided->blocks) size += heads_of(block, place) * block.head_size;
  return part;
}

}  // namespace models
