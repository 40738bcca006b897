// What standard output is.
#pragma once

namespace trainer {

struct Terminal {
  bool interactive = false;  // a terminal that can redraw a line
  bool colour = false;       // and NO_COLOR is not set (https://no-color.org)
};

Terminal standard_output();

// Columns of the terminal as it is now, 80 where it does not say.
int terminal_width();

}  // namespace trainer
