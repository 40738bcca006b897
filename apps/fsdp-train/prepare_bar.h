// How far a text is on its way to tokens, for terminals.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "console/terminal.h"
#include "data/encode.h"

namespace trainer {

// One line of at most `width` - 1 columns, so that no terminal wraps it: percent, a bar, and what there is room for of
// bytes, speed and time left. total > 0.
std::string prepare_bar(int64_t done, int64_t total, double seconds, int width, const Terminal& terminal);

// The bar on standard output while a text is turned into tokens, where that is a terminal. Its destructor removes it.
class BarOnTerminal {
 public:
  BarOnTerminal() : terminal_(standard_output()), began_(Clock::now()) {}
  ~BarOnTerminal();
  BarOnTerminal(const BarOnTerminal&) = delete;
  BarOnTerminal& operator=(const BarOnTerminal&) = delete;

  // For as long as the bar lives; empty where there is no terminal.
  data::OnProgress on_progress();

 private:
  using Clock = std::chrono::steady_clock;
  void show(int64_t done, int64_t total);

  Terminal terminal_;
  Clock::time_point began_;
  double shown_ = -1;  // seconds since then; negative: not yet
};

}  // namespace trainer
