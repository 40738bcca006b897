// The parts of this rank's memory at the peak of a step, for the step's record.
#pragma once

#include <vector>

#include "metrics/step_record.h"
#include "training/training.h"

namespace trainer {

std::vector<MemoryPart> memory_parts(const Training& training);

}  // namespace trainer
