// The kind of standard output.
#pragma once

#include <string>
#include <string_view>

namespace trainer {

struct Terminal {
  bool interactive = false;  // a terminal that can redraw a line
  bool colour = false;       // and NO_COLOR is not set (https://no-color.org)
  bool utf8 = false;         // the locale's characters are those of Unicode; otherwise ASCII alone is safe
};

Terminal standard_output();

// Prints it at once, made harmless to a terminal (files/printable.h): names and texts come from strangers. Text that
// standard output cannot take, on a full disk say, is lost: a training does not end for want of its log. `end_output`
// reports that.
void print(std::string_view text);
// As above, on standard error. On a terminal, long lines are broken at words (files/wrapped.h).
void print_error(std::string_view text);
// With its escapes, on standard output: only for what this program draws itself.
void draw(std::string_view text);

// The reason why standard output lost text, for example "No space left on device": the first error of this process and
// of its forked ones. Empty: it took all, or the reader of a pipe has closed it.
std::string output_problem();

enum class Printed { Results, Progress };
// The last call of a program: if output was lost, an error on standard error says so. Returns the exit code: `code`,
// and 1 instead of 0 where results were lost.
int end_output(std::string_view program, Printed printed, int code);

// Replaces the cursor's line by one line, erases everything below, and returns to its beginning. A terminal that has
// become narrower than the line cuts it: a line that wraps could not be replaced.
void draw_line(std::string_view line);

// Columns of the terminal as it is now, 80 where it does not say.
int terminal_width();

}  // namespace trainer
