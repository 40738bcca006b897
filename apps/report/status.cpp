#include "report/status.h"

#include <fmt/format.h>

namespace trainer {

RunStatus status_of(const RunFolder& run, bool is_locked) {
  if (is_locked) return RunStatus::Running;
  if (run.metrics.processes.empty()) {
    const bool is_done = std::to_string(run.metrics.steps.back()) == run.setting("steps");
    return is_done ? RunStatus::Finished : RunStatus::Unknown;
  }
  const std::optional<ProcessEnd>& end = run.metrics.processes.back().end;
  if (!end) return RunStatus::BrokenOff;
  switch (end->status) {
    case EndStatus::Finished:
      return RunStatus::Finished;
    case EndStatus::Stopped:
      return RunStatus::Stopped;
    case EndStatus::Failed:
      break;
  }
  return RunStatus::Failed;
}

std::string word_of(RunStatus status) {
  switch (status) {
    case RunStatus::Running:
      return "running";
    case RunStatus::Finished:
      return "finished";
    case RunStatus::Stopped:
      return "stopped";
    case RunStatus::Failed:
      return "failed";
    case RunStatus::BrokenOff:
      return "broken off";
    case RunStatus::Unknown:
      break;
  }
  return "";
}

std::string status_label(RunStatus status) {
  const std::string word = word_of(status);
  if (word.empty()) return "";
  const std::string name = status == RunStatus::BrokenOff ? "broken-off" : word;
  return fmt::format("<span class=\"status {}\">{}</span>", name, word);
}

}  // namespace trainer
