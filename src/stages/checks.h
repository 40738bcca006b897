// The parts of `validate`. Each may rely on those before it.
#pragma once

#include "stages/action_places.h"

namespace fsdp::stages {

void check_passes(const StageSchedule& schedule, const ActionPlaces& places);
void check_messages(const StageSchedule& schedule, const ActionPlaces& places);
void check_shards(const StageSchedule& schedule);
void check_progress(const StageSchedule& schedule);

}  // namespace fsdp::stages
