#include "schedule/action.h"

namespace fsdp::schedule {

std::string to_string(const Action& action) {
  static constexpr const char* kNames[] = {"Release", "Gather", "WaitGather", "OpenGradient", "Reduce", "WaitReduce"};
  std::string text = kNames[static_cast<int>(action.kind)] + (" " + std::to_string(action.unit));
  if (action.buffer >= 0) text += " in " + std::to_string(action.buffer);
  if (action.foreseen) text += " foreseen";
  return text;
}

}  // namespace fsdp::schedule
