#include "schedule/unit_counts.h"

#include <algorithm>
#include <array>

namespace fsdp::schedule {

namespace {

constexpr std::array kNumbers = {&UnitCount::reductions, &UnitCount::lag, &UnitCount::gradients, &UnitCount::changed};

}  // namespace

void take_largest(UnitCounts& counts, const UnitCounts& others) {
  for (size_t unit = 0; unit < counts.size(); ++unit) {
    for (auto number : kNumbers) counts[unit].*number = std::max(counts[unit].*number, others[unit].*number);
  }
}

size_t words_of_counts(size_t units) { return units * kNumbers.size(); }

void pack(const UnitCounts& counts, std::span<int64_t> words) {
  size_t word = 0;
  for (const UnitCount& unit : counts) {
    for (auto number : kNumbers) words[word++] = unit.*number;
  }
}

UnitCounts unpack(std::span<const int64_t> words) {
  UnitCounts counts(words.size() / kNumbers.size());
  size_t word = 0;
  for (UnitCount& unit : counts) {
    for (auto number : kNumbers) unit.*number = words[word++];
  }
  return counts;
}

std::optional<UnitId> changed_too_early(const UnitCounts& counts) {
  const auto found =
      std::ranges::find_if(counts, [](const UnitCount& unit) { return unit.changed > 0 && unit.reductions > 1; });
  if (found == counts.end()) return std::nullopt;
  return static_cast<UnitId>(found - counts.begin());
}

}  // namespace fsdp::schedule
