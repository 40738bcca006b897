#include <algorithm>
#include <span>

#include "stages/rewrites.h"
#include "stages/validate.h"

namespace fsdp::stages {
namespace {

using Kind = StageAction::Kind;
using Cell = std::span<const StageAction>;  // actions that run at the same time; mostly one

// One rank's actions, and the additional ones before and behind each cell.
class GatherWriter {
 public:
  explicit GatherWriter(const std::vector<StageAction>& actions) {
    for (size_t i = 0; i < actions.size(); i += cells_.back().size()) cells_.push_back(together(actions, i));
    before_.resize(cells_.size());
    behind_.resize(cells_.size());
  }

  void keep_full(int stage) {
    const auto reads = [&](Cell cell) {
      return std::ranges::any_of(
          cell, [&](const StageAction& action) { return action.stage == stage && reads_parameters(action.kind); });
    };
    size_t first = 0, last = cells_.size() - 1;
    while (!reads(cells_[first])) ++first;
    while (!reads(cells_[last])) --last;
    const size_t cell = one_pass_ahead(first);
    auto& gathers = before_[cell];
    // A gather for the next pass comes before gathers that are ahead.
    gathers.insert(cell == first ? gathers.begin() : gathers.end(), {.kind = Kind::Gather, .stage = stage});
    behind_[last].push_back({.kind = Kind::Release, .stage = stage});
  }

  std::vector<StageAction> write() const {
    std::vector<StageAction> all;
    for (size_t i = 0; i < cells_.size(); ++i) {
      all.insert(all.end(), before_[i].begin(), before_[i].end());
      all.insert(all.end(), cells_[i].begin(), cells_[i].end());
      all.insert(all.end(), behind_[i].begin(), behind_[i].end());
    }
    return all;
  }

 private:
  // The use itself, if no pass lies before it.
  size_t one_pass_ahead(size_t use) const {
    for (size_t cell = use; cell > 0; --cell) {
      if (is_pass(cells_[cell - 1].front().kind)) return cell - 1;
    }
    return use;
  }

  std::vector<Cell> cells_;
  std::vector<std::vector<StageAction>> before_, behind_;  // by cell
};

}  // namespace

StageSchedule add_gathers(const StageSchedule& schedule) {
  validate(schedule);
  StageSchedule result = schedule;
  for (int rank = 0; rank < schedule.rank_count(); ++rank) {
    GatherWriter writer(schedule.ranks[rank]);
    for (int stage = 0; stage < schedule.stages(); ++stage) {
      if (schedule.rank_of(stage) == rank) writer.keep_full(stage);
    }
    result.ranks[rank] = writer.write();
  }
  return result;
}

}  // namespace fsdp::stages
