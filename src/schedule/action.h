// Actions: each one thing that the schedule tells the engine to do.
#pragma once

#include <string>
#include <vector>

#include "schedule/use_order.h"

namespace fsdp::schedule {

struct Action {
  enum class Kind {
    Release,       // give up the full unit in `buffer`
    Gather,        // begin to make the unit full, in `buffer`
    WaitGather,    // the unit must be full from here on
    OpenGradient,  // the unit's gradients are completed in gradient buffer `buffer`
    Reduce,        // begin to reduce what is there
    WaitReduce,    // the reduction must be over; its gradient buffer is free from here on
    WaitBuffer,    // the gradient buffer must be free: a WaitReduce, unless the reduction stalls
  };
  Kind kind;
  UnitId unit;
  int buffer = -1;
  bool foreseen = false;  // a Gather that the plan knew: every rank begins it at the same place

  bool operator==(const Action&) const = default;
};

using Actions = std::vector<Action>;

// "Gather 3 in 1", for messages and tests.
std::string to_string(const Action& action);

}  // namespace fsdp::schedule
