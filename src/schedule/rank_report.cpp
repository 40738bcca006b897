#include "schedule/rank_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/fnv1a.h"

namespace fsdp::schedule {

namespace {

constexpr size_t kNameWords = 6;

// The words before the counts.
enum Word : size_t {
  kActivity,
  kUnit,
  kName,
  kChanges = kName + kNameWords,
  kGathers,
  kPlans,
  kAsBefore,
  kWritten,
  kChanged,
  kHeaderWords
};

}  // namespace

std::string describe(const RankReport& report, std::span<const std::string> units) {
  const auto unit = [&]() -> const std::string& { return units[static_cast<size_t>(report.unit)]; };
  switch (report.activity) {
    case RankActivity::Gathers:
      return fmt::format("gathers unit {} outside of a plan{}{}", unit(), report.operation.empty() ? "" : ", for ",
                         report.operation);
    case RankActivity::Waits:
      return fmt::format("waits for unit {}", unit());
    case RankActivity::Writes:
      return fmt::format("writes unit {}, for {}", unit(), report.operation);
    case RankActivity::EndsBackward:
      return "has ended its backward";
    case RankActivity::Follows:
      return "has no batch";
  }
  return {};
}

size_t words_of_report(size_t units) { return kHeaderWords + words_of_counts(units); }

void pack(const RankReport& report, std::span<int64_t> words) {
  std::fill_n(words.begin(), static_cast<size_t>(kHeaderWords), 0);
  words[kActivity] = static_cast<int64_t>(report.activity);
  words[kUnit] = report.unit;
  std::memcpy(&words[kName], report.operation.data(), std::min(report.operation.size(), kNameWords * sizeof(int64_t)));
  words[kChanges] = report.changes;
  words[kGathers] = report.gathers;
  words[kPlans] = report.plans;
  words[kAsBefore] = report.reductions_as_before;
  words[kWritten] = report.written;
  words[kChanged] = report.changed;
  pack(report.counts, words.subspan(kHeaderWords));
}

RankReport unpack_report(std::span<const int64_t> words) {
  const auto* name = reinterpret_cast<const char*>(&words[kName]);
  return {.activity = RankActivity(words[kActivity]),
          .unit = static_cast<UnitId>(words[kUnit]),
          .operation = {name, strnlen(name, kNameWords * sizeof(int64_t))},
          .counts = unpack(words.subspan(kHeaderWords)),
          .changes = words[kChanges],
          .gathers = words[kGathers],
          .plans = words[kPlans],
          .reductions_as_before = words[kAsBefore] != 0,
          .written = words[kWritten],
          .changed = words[kChanged] != 0};
}

int64_t hash_of(std::span<const int> numbers) {
  Fnv1a hash;
  for (const int number : numbers) hash.add(uint64_t{static_cast<uint32_t>(number)});
  return hash.word();
}

}  // namespace fsdp::schedule
