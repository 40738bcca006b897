#include "base/error.h"
#include "stages/looped_stages.h"
#include "stages/schedules.h"

namespace fsdp::stages {

StageSchedule one_forward_one_backward(int ranks, int stages_per_rank, int micro_batches) {
  FSDP_CHECK(stages_per_rank == 1,
             "the schedule OneForwardOneBackward has 1 stage per rank, found {}: choose Interleaved, which is the same "
             "with several",
             stages_per_rank);
  return one_forward_one_backward_of(ranks, 1, micro_batches, /*hops=*/1);
}

}  // namespace fsdp::stages
