// Findings about the processor.
#pragma once

#include <vector>

#include "doctor/finding.h"
#include "run/processor.h"

namespace trainer {

std::vector<Finding> findings_of(const Processor& processor);

}  // namespace trainer
