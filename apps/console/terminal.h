// The kind of standard output.
#pragma once

#include <string_view>

namespace trainer {

struct Terminal {
  bool interactive = false;  // a terminal that can redraw a line
  bool colour = false;       // and NO_COLOR is not set (https://no-color.org)
  bool utf8 = false;         // the locale's characters are those of Unicode; otherwise ASCII alone is safe
};

Terminal standard_output();

// Prints it at once, made harmless to a terminal (files/printable.h): names and texts come from strangers. What cannot
// be printed is lost: no program should end because its log file's disk is full.
void print(std::string_view text);
// As above, on standard error.
void print_error(std::string_view text);
// With its escapes, on standard output: only for what this program draws itself.
void draw(std::string_view text);

// One line in the place of the one that the cursor is in, whose beginning it returns to; what is below is erased. A
// terminal that has become narrower than the line cuts it: a line that wraps could not be replaced.
void draw_line(std::string_view line);

// Columns of the terminal as it is now, 80 where it does not say.
int terminal_width();

}  // namespace trainer
