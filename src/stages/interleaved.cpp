#include "stages/looped_stages.h"
#include "stages/schedules.h"

namespace fsdp::stages {

// A rank begins with two forwards for each rank behind it: one that goes there, and one whose gradient comes back while
// the next micro-batch goes through another stage of the rank. One stage per rank is 1F1B, which needs one.
//
// With a shorter last group of micro-batches, some ranks would wait for each other for ever. So the last group is
// completed, and the additional micro-batches are dropped from the order.
StageSchedule interleaved(int ranks, int stages_per_rank, int micro_batches) {
  return one_forward_one_backward_of(ranks, stages_per_rank, micro_batches, /*hops=*/stages_per_rank == 1 ? 1 : 2);
}

}  // namespace fsdp::stages
