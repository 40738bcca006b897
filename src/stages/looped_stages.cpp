#include "stages/looped_stages.h"

#include <algorithm>

#include "base/error.h"

namespace fsdp::stages {

void check_counts(int ranks, int stages_per_rank, int micro_batches) {
  FSDP_CHECK(ranks > 0 && stages_per_rank > 0 && micro_batches > 0,
             "schedule of a pipeline: found {} ranks, {} stages per rank and {} micro-batches, expected at least 1 of "
             "each",
             ranks, stages_per_rank, micro_batches);
  FSDP_CHECK(
      ranks <= kMostNumber / stages_per_rank && micro_batches <= kMostNumber,
      "schedule of a pipeline: found {} ranks, {} stages per rank and {} micro-batches, expected at most {} stages "
      "and as many micro-batches",
      ranks, stages_per_rank, micro_batches, kMostNumber);
}

StageSchedule looped_stages(int ranks, int stages_per_rank, int micro_batches) {
  check_counts(ranks, stages_per_rank, micro_batches);
  StageSchedule schedule;
  schedule.ranks.resize(static_cast<size_t>(ranks));
  for (int stage = 0; stage < ranks * stages_per_rank; ++stage) schedule.rank_of_stage.push_back(stage % ranks);
  schedule.micro_batches = micro_batches;
  return schedule;
}

std::vector<StageAction> depth_first_forwards(int rank, int ranks, int stages_per_rank, int micro_batches) {
  std::vector<StageAction> forwards;
  for (int group = 0; group < micro_batches; group += ranks) {
    for (int loop = 0; loop < stages_per_rank; ++loop) {
      for (int i = 0; i < ranks; ++i)
        forwards.push_back(
            {.kind = StageAction::Kind::Forward, .stage = loop * ranks + rank, .micro_batch = group + i});
    }
  }
  return forwards;
}

// Those of the forwards, with the rank's last stage in the place of its first.
std::vector<StageAction> depth_first_backwards(int rank, int ranks, int stages_per_rank, int micro_batches) {
  std::vector<StageAction> backwards = depth_first_forwards(rank, ranks, stages_per_rank, micro_batches);
  for (StageAction& action : backwards) {
    action.kind = StageAction::Kind::Backward;
    action.stage = (stages_per_rank - 1) * ranks + 2 * rank - action.stage;
  }
  return backwards;
}

int whole_groups(int micro_batches, int ranks) { return (micro_batches + ranks - 1) / ranks * ranks; }

void keep_micro_batches(StageSchedule& schedule, int micro_batches) {
  for (auto& actions : schedule.ranks)
    std::erase_if(actions, [&](const StageAction& action) { return action.micro_batch >= micro_batches; });
  schedule.micro_batches = micro_batches;
}

StageSchedule one_forward_one_backward_of(int ranks, int stages_per_rank, int micro_batches, int hops) {
  StageSchedule schedule = looped_stages(ranks, stages_per_rank, micro_batches);
  for (int rank = 0; rank < ranks; ++rank) {
    const int whole = whole_groups(micro_batches, ranks);
    const std::vector<StageAction> forwards = depth_first_forwards(rank, ranks, stages_per_rank, whole);
    const std::vector<StageAction> backwards = depth_first_backwards(rank, ranks, stages_per_rank, whole);
    const int first = (stages_per_rank - 1) * ranks + hops * (ranks - 1 - rank);
    const size_t ahead = std::min<size_t>(first, forwards.size());
    std::vector<StageAction>& actions = schedule.ranks[rank];
    actions.assign(forwards.begin(), forwards.begin() + static_cast<ptrdiff_t>(ahead));
    for (size_t i = 0; i < backwards.size(); ++i) {
      if (ahead + i < forwards.size()) actions.push_back(forwards[ahead + i]);
      actions.push_back(backwards[i]);
    }
  }
  keep_micro_batches(schedule, micro_batches);
  return schedule;
}

}  // namespace fsdp::stages
