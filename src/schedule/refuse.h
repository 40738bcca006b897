// Turns a misuse into the error that the caller gets.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "schedule/step_machine.h"

namespace fsdp::schedule {

// Throws Error for a misuse; `call` is what the program did, and `unit`, where one is concerned, its name.
inline void refuse(Misuse misuse, std::string_view call, const std::string& unit = "") {
  const std::string prefix = unit.empty() ? message_prefix() : message_prefix(unit);
  throw_error(prefix + message_of(misuse, call));
}

// Throws Error unless the call may go on now. `what` is text. Its length is not computed if the call may continue,
// because this check runs at every touch.
template <typename Text>
void check_call(const StepMachine& machine, Call call, const Text& what, const std::string& unit = "") {
  const Misuse misuse = machine.check(call);
  if (misuse == Misuse::None) [[likely]]
    return;
  const std::string_view named = what;
  refuse(misuse, misuse == Misuse::StepBroken ? std::string_view(machine.why_broken()) : named, unit);
}

}  // namespace fsdp::schedule
