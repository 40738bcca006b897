// Strategies as messages and reports call them.
#pragma once

#include <cstddef>

#include "base/error.h"
#include "fsdp/options.h"
#include "schedule/strategies.h"

namespace fsdp {

inline const char* name_of(Strategy strategy) {
  const auto number = static_cast<size_t>(strategy);
  if (number < schedule::kStrategies.size()) return schedule::kStrategies[number].name;
  throw_error(message_prefix() + fmt::format("shard: {} is not a strategy", static_cast<int>(strategy)));
}

}  // namespace fsdp
