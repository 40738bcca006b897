#include "stages/refusal.h"

#include <algorithm>

#include "base/error.h"
#include "base/table.h"

namespace fsdp::stages {
namespace {

constexpr size_t kPositionsAround = 4;
constexpr int kRanksAround = 4;
constexpr std::string_view kMark = " <--";

std::string text_at(const StageSchedule& schedule, ActionPlace place) {
  const auto& actions = schedule.ranks[place.rank];
  return place.position < actions.size() ? to_string(actions[place.position]) : "";
}

}  // namespace

std::string grid_around(const StageSchedule& schedule, ActionPlace place) {
  const int first_rank = std::max(0, place.rank - kRanksAround);
  const int ranks = std::min(schedule.rank_count(), place.rank + kRanksAround + 1) - first_rank;
  std::vector<Table::Column> columns{{"position", Table::Align::Right}};
  for (int i = 0; i < ranks; ++i) columns.push_back({fmt::format("rank {}", first_rank + i)});
  Table table(columns);
  size_t longest = place.position + 1;
  for (const auto& actions : schedule.ranks) longest = std::max(longest, actions.size());
  const size_t first = place.position - std::min(place.position, kPositionsAround);
  for (size_t i = first; i < std::min(longest, place.position + kPositionsAround + 1); ++i) {
    Table::Row row{fmt::format("{}", i)};
    for (int rank = first_rank; rank < first_rank + ranks; ++rank) {
      row.push_back(text_at(schedule, {rank, i}));
      if (rank == place.rank && i == place.position) row.back().append(kMark);
    }
    table.add(row);
  }
  return table.text();
}

void throw_refusal(const StageSchedule& schedule, ActionPlace place, const std::string& problem) {
  const bool at_end = place.position >= schedule.ranks[place.rank].size();
  throw_error(fmt::format("{}schedule of a pipeline, rank {}, position {} ({}): {}\n\n{}", message_prefix(), place.rank,
                          place.position, at_end ? "end" : text_at(schedule, place), problem,
                          grid_around(schedule, place)));
}

}  // namespace fsdp::stages
