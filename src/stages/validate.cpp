#include "stages/validate.h"

#include "base/error.h"
#include "stages/checks.h"

namespace fsdp::stages {

void validate(const StageSchedule& schedule) {
  FSDP_CHECK(!schedule.ranks.empty() && schedule.stages() > 0 && schedule.micro_batches > 0,
             "schedule of a pipeline: found {} ranks, {} stages and {} micro-batches, expected at least 1 of each",
             schedule.rank_count(), schedule.stages(), schedule.micro_batches);
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const int rank = schedule.rank_of(stage);
    FSDP_CHECK(rank >= 0 && rank < schedule.rank_count(),
               "schedule of a pipeline: stage {} of {} lies on no rank, expected each stage on one", stage,
               schedule.stages());
  }
  const ActionPlaces places(schedule);
  check_passes(schedule, places);
  if (has_messages(schedule)) check_messages(schedule, places);
  check_shards(schedule);
  check_progress(schedule);
}

}  // namespace fsdp::stages
