// What a rank's memory was taken by at the peak of a step, for its record.
#pragma once

#include <vector>

#include "metrics/step_record.h"
#include "training/training.h"

namespace trainer {

std::vector<MemoryPart> memory_parts(const Training& training);

}  // namespace trainer
