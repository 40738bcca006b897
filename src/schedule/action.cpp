#include "schedule/action.h"

#include <fmt/format.h>

namespace fsdp::schedule {

std::string to_string(const Action& action) {
  static constexpr const char* kNames[] = {"Release", "Gather",     "WaitGather", "OpenGradient",
                                           "Reduce",  "WaitReduce", "WaitBuffer"};
  std::string text = fmt::format("{} {}", kNames[static_cast<int>(action.kind)], action.unit);
  if (action.buffer >= 0) text += fmt::format(" in {}", action.buffer);
  if (action.foreseen) text += " foreseen";
  return text;
}

}  // namespace fsdp::schedule
