// How a run is going: on a terminal one line, redrawn in place; elsewhere a line now and then, without control
// characters.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "console/terminal.h"
#include "metrics/step_record.h"

namespace trainer {

// One line of at most `width` - 1 columns, so that no terminal wraps it. Where that is narrow, what matters least is
// left out.
std::string progress_bar(const StepRecord& record, int64_t steps, int width, bool colour);

// As above, aligned under each other for records of one run.
std::string progress_line(const StepRecord& record, int64_t steps);

// One thread at a time.
class Progress {
 public:
  // log_every: steps between plain lines, 0: five seconds
  Progress(int64_t steps, int64_t log_every, Terminal terminal);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const StepRecord& record);
  // A line of its own, above the one that is redrawn.
  void tell(const std::string& text);
  // Shows the last step, if no line was due for it, and ends the line in place, so that other output may follow.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  bool is_due(const StepRecord& record) const;
  void put(const StepRecord& record);
  void draw();

  int64_t steps_, log_every_;
  Terminal terminal_;
  std::optional<Clock::time_point> shown_;
  std::optional<StepRecord> drawn_;    // what the line in place shows, while there is one
  std::optional<StepRecord> waiting_;  // the last step, where no line was due for it
};

}  // namespace trainer
