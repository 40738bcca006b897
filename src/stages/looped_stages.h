// Shared by the generators: stages dealt to the ranks in turn, and the order in which a rank goes through its own.
#pragma once

#include <vector>

#include "stages/stage_schedule.h"

namespace fsdp::stages {

// Throws Error for counts below 1, or more stages or micro-batches than have a number.
void check_counts(int ranks, int stages_per_rank, int micro_batches);

// Ranks without actions; stage s lies on rank s % ranks. Checks the counts.
StageSchedule looped_stages(int ranks, int stages_per_rank, int micro_batches);

// The forwards of a rank, or its backwards, depth first. A group has as many micro-batches as there are ranks. It goes
// through the rank's first stage, then through the next, and so on; backwards begin with the last stage. The number of
// micro-batches is a multiple of `ranks`.
std::vector<StageAction> depth_first_forwards(int rank, int ranks, int stages_per_rank, int micro_batches);
std::vector<StageAction> depth_first_backwards(int rank, int ranks, int stages_per_rank, int micro_batches);

// The smallest multiple of `ranks` that is at least `micro_batches`.
int whole_groups(int micro_batches, int ranks);
// Drops the micro-batches that were only there to make groups whole. An order that every rank can follow stays one,
// because no micro-batch waits for another one's passes.
void keep_micro_batches(StageSchedule& schedule, int micro_batches);

// 1F1B: some forwards, then a forward and a backward in turn, then the rest of the backwards. A rank begins with `hops`
// forwards for each rank behind it, and those of all its stages but the last for one group.
StageSchedule one_forward_one_backward_of(int ranks, int stages_per_rank, int micro_batches, int hops);

}  // namespace fsdp::stages
