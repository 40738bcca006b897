#include "stages/looped_stages.h"
#include "stages/schedules.h"

namespace fsdp::stages {

// 1F1B with divided backwards. Rank r keeps back r weight gradients until its last input gradients are made. It begins
// with r forwards fewer than rank 0, so all ranks hold equally many activations.
//
// With a multiple of `ranks` micro-batches this is the order of PyTorch's ScheduleInterleavedZeroBubble. PyTorch
// refuses most other numbers. Here the last group is completed, and the additional micro-batches are dropped from the
// order.
StageSchedule zero_bubble(int ranks, int stages_per_rank, int micro_batches) {
  check_counts(ranks, stages_per_rank, micro_batches);
  StageSchedule schedule =
      one_forward_one_backward_of(ranks, stages_per_rank, whole_groups(micro_batches, ranks), /*hops=*/1);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<StageAction> divided, waiting;
    size_t oldest = 0;
    for (StageAction action : schedule.ranks[rank]) {
      if (action.kind != StageAction::Kind::Backward) {
        divided.push_back(action);
        continue;
      }
      action.kind = StageAction::Kind::InputGradient;
      divided.push_back(action);
      action.kind = StageAction::Kind::WeightGradient;
      waiting.push_back(action);
      if (waiting.size() - oldest > static_cast<size_t>(rank)) divided.push_back(waiting[oldest++]);
    }
    divided.insert(divided.end(), waiting.begin() + static_cast<ptrdiff_t>(oldest), waiting.end());
    schedule.ranks[rank] = std::move(divided);
  }
  keep_micro_batches(schedule, micro_batches);
  return schedule;
}

}  // namespace fsdp::stages
