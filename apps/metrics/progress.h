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

// One line of at most `width` - 1 columns, so that no terminal wraps it. Each field keeps its place from step to step.
// Where the line is narrow, fields that matter least are left out.
std::string progress_bar(const StepRecord& record, int64_t steps, int width, const Terminal& terminal);

// As above, before a step is done: the bar and what is waited for.
std::string waiting_bar(int64_t steps_done, int64_t steps, int width, const Terminal& terminal);

// "step 200: validation loss 4.1391, loss 3.6994".
std::string validation_line(const StepRecord& record, int64_t steps);

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

  // Before the first step: a bar that says so, where there is a terminal. A first step may take minutes.
  void begin(int64_t steps_done);
  // On a terminal, a validation loss has a line of its own as well, which stays.
  void show(const StepRecord& record);
  // A line of its own, above the redrawn one.
  void tell(const std::string& text);
  // Shows the last step, if no line was due for it, and ends the line in place, so that other output may follow.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  bool is_due(const StepRecord& record) const;
  void put(const StepRecord& record);
  bool is_drawn() const { return begun_ || drawn_; }
  void draw();

  int64_t steps_, log_every_;
  Terminal terminal_;
  std::optional<Clock::time_point> shown_;
  std::optional<int64_t> begun_;       // the steps that were done before the first one, while that is waited for
  std::optional<StepRecord> drawn_;    // what the line in place shows, while there is one
  std::optional<StepRecord> waiting_;  // the last step, where no line was due for it
};

}  // namespace trainer
