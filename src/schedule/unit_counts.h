// The counts of one backward, per unit. At its end the ranks exchange them, and each takes the largest of every number.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedule/use_order.h"

namespace fsdp::schedule {

struct UnitCount {
  int64_t reductions = 0;  // that the rank has begun or must begin
  int64_t lag = -1;        // uses of other units between the last use and the last gradient; -1: no gradients
  int64_t gradients = 0;
  int64_t changed = 0;  // 1: the shard changed before the end of the backward

  bool operator==(const UnitCount&) const = default;
};

using UnitCounts = std::vector<UnitCount>;  // by unit

// Raises each number to that of `others`; both have as many units.
void take_largest(UnitCounts& counts, const UnitCounts& others);

// As words of a message.
size_t words_of_counts(size_t units);
void pack(const UnitCounts& counts, std::span<int64_t> words);
UnitCounts unpack(std::span<const int64_t> words);

// Given the largest counts: a unit that changed on some rank before the end of the backward, though some rank needs
// another reduction of it.
std::optional<UnitId> changed_too_early(const UnitCounts& counts);

}  // namespace fsdp::schedule
