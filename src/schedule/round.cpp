#include "schedule/round.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/rank_names.h"

namespace fsdp::schedule {

namespace {

const RankReport* first_with_batch(const RankReports& reports) {
  const auto found = std::ranges::find_if(reports, &RankReport::has_batch);
  return found == reports.end() ? nullptr : &*found;
}

bool same_activity(const RankReport& one, const RankReport& other) {
  return one.activity == other.activity && one.unit == other.unit;
}

// In messages.
std::string text_of(size_t rank, std::span<const int> names) {
  return text_of_rank(names.empty() ? static_cast<int>(rank) : names[rank]);
}

}  // namespace

Round merge(const RankReports& reports, std::span<const uint8_t> sharers) {
  Round round{.counts = reports[0].counts};
  std::set<UnitId> gathered;
  const RankReport* first = first_with_batch(reports);
  round.any_batch = first != nullptr;
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const RankReport& report = reports[rank];
    take_largest(round.counts, report.counts);
    round.reductions_as_before &= report.reductions_as_before;
    if (!report.has_batch()) continue;
    round.ended &= report.activity == RankActivity::EndsBackward;
    round.wrote_alike &= report.written == first->written;
    round.changed |= report.changed;
    round.alike &= same_activity(report, *first) && report.gathers == first->gathers && report.plans == first->plans;
    if (report.activity == RankActivity::Gathers && sharers[rank] != 0) gathered.insert(report.unit);
  }
  round.gathered.assign(gathered.begin(), gathered.end());
  return round;
}

// A peer that has taken fewer steps needs the shards before their last change, which are gone.
void check_can_go_on(const RankReports& reports, bool takes_part, std::span<const std::string> units,
                     std::span<const int> names) {
  const RankReport* first = first_with_batch(reports);
  for (const RankReport& other : reports) {
    if (!other.has_batch()) continue;
    const bool writes = first->activity == RankActivity::Writes || other.activity == RankActivity::Writes;
    const int64_t ahead = other.changes - first->changes;
    FSDP_CHECK(ahead == 0 && (same_activity(*first, other) || (takes_part && !writes)),
               "{} {} where {} {}{}. Every rank must run the same part of the model; does its control flow "
               "depend on the data? Where one rank alone reads a parameter, for a log or an evaluation, let every "
               "rank do it.",
               text_of(&other - reports.data(), names), describe(other, units), text_of(first - reports.data(), names),
               describe(*first, units),
               ahead == 0  ? ""
               : ahead < 0 ? ", after a step that the first has not taken"
                           : ", before a step that the first has taken");
  }
}

bool gathers_differ(const RankReports& reports) {
  return !std::ranges::all_of(reports, [&](const RankReport& one) { return one.gathers == reports[0].gathers; });
}

std::vector<UnitId> missed_gathers(const std::vector<std::vector<UnitId>>& lists, int own,
                                   std::span<const uint8_t> sharers, std::span<const std::string> units,
                                   std::span<const int> names) {
  std::vector<UnitId> longest = lists[static_cast<size_t>(own)];
  const auto begun_here = static_cast<ptrdiff_t>(longest.size());
  for (size_t rank = 0; rank < lists.size(); ++rank) {
    if (sharers[rank] == 0) continue;
    for (size_t i = 0; i < lists[rank].size(); ++i) {
      const UnitId unit = lists[rank][i];
      if (i == longest.size()) longest.push_back(unit);
      FSDP_CHECK(longest[i] == unit,
                 "{} gathers unit {} where another gathers unit {}, each as its plan says. Every rank must run the "
                 "same part of the model where units are gathered ahead; does its control flow depend on the data?",
                 text_of(rank, names), units[static_cast<size_t>(unit)], units[static_cast<size_t>(longest[i])]);
    }
  }
  return {longest.begin() + begun_here, longest.end()};
}

}  // namespace fsdp::schedule
