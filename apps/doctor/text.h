// The findings as text.
#pragma once

#include <string>
#include <vector>

#include "doctor/finding.h"

namespace trainer {

// In lines of 80 columns, with a sentence at the end that sums it up. `utf8`: otherwise in ASCII alone.
std::string doctor_text(const std::vector<Findings>& all, bool utf8);

bool has_problem(const std::vector<Findings>& all);

}  // namespace trainer
