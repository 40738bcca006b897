// Errors that name the action of the schedule in which they came.
#pragma once

#include <torch/types.h>

#include <exception>
#include <string>
#include <utility>

#include "base/error.h"

namespace fsdp::pipeline {

// Throws Error: the place, then the text of the present exception without its own prefix.
[[noreturn]] void throw_with_place(const std::string& place);

// Runs `action`, and adds the place to its errors. `place` is a function that returns text, for example
// "stage 1, forward of micro-batch 3".
template <typename Place, typename Action>
auto at_place(Place&& place, Action&& action) {
  try {
    return action();
  } catch (const std::exception&) {
    throw_with_place(place());
  }
}

}  // namespace fsdp::pipeline
