// A round: the reports of all ranks, and the next gathers of each rank that follow from them. Pure.
//
// Ranks may enter a round for different reasons. Every rank then takes part in the gathers of all units that any rank
// with the same shards needs, also if it has ended its backward or has no batch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedule/rank_report.h"

namespace fsdp::schedule {

using RankReports = std::vector<RankReport>;  // by rank

struct Round {
  std::vector<UnitId> missed = {};    // units whose gathers this rank has not joined yet, in this order
  std::vector<UnitId> gathered = {};  // then the units that ranks with the same shards need, by number
  bool any_batch = false;             // some rank has a batch; the next four are about the ranks that have one
  bool ended = true;                  // they have ended their backward
  bool alike = true;                  // they did the same so far, and are at the same activity
  bool wrote_alike = true;            // their operators wrote the same values
  bool changed = false;               // one of them changed a value
  bool reductions_as_before = true;
  UnitCounts counts = {};  // the largest of all ranks
};

// All but `missed`. `sharers`: by rank, 1 if it has the same shards as this one.
Round merge(const RankReports& reports, std::span<const uint8_t> sharers);

// Throws Error, the same on every rank, if the ranks cannot go on: two with a batch have taken different numbers of
// steps, or are at different activities. `takes_part`: the ranks can join each other's gathers, so activities may
// differ, unless one is Writes. `units`: the names of the units. `names`: of the ranks, as in Facts.
void check_can_go_on(const RankReports& reports, bool takes_part, std::span<const std::string> units,
                     std::span<const int> names = {});

// True if the ranks have begun different numbers of gathers: then they exchange the lists of them.
bool gathers_differ(const RankReports& reports);
// `lists`: by rank, the units that it has begun to gather since the last round. All followed the same plan, so a rank
// lacks the end of the longest list. Returns the gathers that ranks with the same shards have begun and rank `own` has
// not. Throws Error if two lists differ before their ends.
std::vector<UnitId> missed_gathers(const std::vector<std::vector<UnitId>>& lists, int own,
                                   std::span<const uint8_t> sharers, std::span<const std::string> units,
                                   std::span<const int> names = {});

}  // namespace fsdp::schedule
