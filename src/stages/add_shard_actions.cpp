#include <algorithm>
#include <span>

#include "stages/rewrites.h"
#include "stages/validate.h"

namespace fsdp::stages {
namespace {

using Kind = StageAction::Kind;
using Cell = std::span<const StageAction>;  // actions that run at the same time; mostly one

// One rank's actions, and the additional ones before and behind each cell.
class ShardActionWriter {
 public:
  explicit ShardActionWriter(const std::vector<StageAction>& actions) {
    for (size_t i = 0; i < actions.size(); i += cells_.back().size()) cells_.push_back(together(actions, i));
    before_.resize(cells_.size());
    behind_.resize(cells_.size());
  }

  void add(int stage, GatherEvery every) {
    std::vector<size_t> reads;
    size_t last_gradients = 0;
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (has(cells_[i], stage, reads_parameters)) reads.push_back(i);
      if (has(cells_[i], stage, adds_gradients)) last_gradients = i;
    }
    if (every == GatherEvery::Step) {
      keep_full(stage, reads.front(), reads.back());
    } else {
      for (size_t read : reads) keep_full(stage, read, read);
    }
    behind_[last_gradients].push_back({.kind = Kind::Reduce, .stage = stage});
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
  static bool has(Cell cell, int stage, bool (*property)(Kind)) {
    return std::ranges::any_of(
        cell, [&](const StageAction& action) { return action.stage == stage && property(action.kind); });
  }
  void keep_full(int stage, size_t first, size_t last) {
    const size_t cell = gather_cell(stage, first);
    auto& gathers = before_[cell];
    gathers.insert(cell == first ? gathers.begin() : gathers.end(), {.kind = Kind::Gather, .stage = stage});
    behind_[last].push_back({.kind = Kind::Release, .stage = stage});
  }
  // One pass ahead of the use. A gather for the next pass comes before gathers that are ahead.
  size_t gather_cell(int stage, size_t use) const {
    size_t ahead = use;
    while (ahead > 0 && !is_pass(cells_[ahead - 1].front().kind)) --ahead;
    return ahead == 0 || has(cells_[ahead - 1], stage, is_pass) ? use : ahead - 1;
  }

  std::vector<Cell> cells_;
  std::vector<std::vector<StageAction>> before_, behind_;  // by cell
};

}  // namespace

StageSchedule add_shard_actions(const StageSchedule& schedule, GatherEvery every) {
  validate(schedule);
  StageSchedule result = schedule;
  for (int rank = 0; rank < schedule.rank_count(); ++rank) {
    ShardActionWriter writer(schedule.ranks[rank]);
    for (int stage = 0; stage < schedule.stages(); ++stage) {
      if (schedule.rank_of(stage) == rank) writer.add(stage, every);
    }
    result.ranks[rank] = writer.write();
  }
  return result;
}

}  // namespace fsdp::stages
