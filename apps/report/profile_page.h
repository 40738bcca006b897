// The page of a profile: the memory over time and its peak, the time of each rank and unit, and both beside the plan.
#pragma once

#include <string>

#include "report/profile.h"

namespace trainer {

// HTML: one file that needs nothing else. `profile` has at least one rank.
std::string profile_page(const Profile& profile);

}  // namespace trainer
