// The strategies of fsdp::Strategy by the names that fsdp-train gives them. Pure.
#pragma once

#include <string_view>

#include "schedule/strategies.h"

namespace fsdp::plan {

// Throws Error for another name.
const schedule::StrategyMeaning& named_strategy(std::string_view name);

}  // namespace fsdp::plan
