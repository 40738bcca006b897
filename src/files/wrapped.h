// Messages in the lines of a terminal. A file or a pipe gets each message whole, so that it can be searched.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fsdp::files {

// `text`, whose lines are broken at words where they have more than `width` columns. A line that fits is not changed.
// In a longer one, the second sentence begins a new line: the first says what happened, and the others what to do. The
// lines of a broken line are indented by two columns more than its first one. A word is never broken, so a long
// path can be copied. `text` is UTF-8, a column per character. Pure.
std::string wrapped(std::string_view text, size_t width);

// `text` as `stream` may show it: printable_lines, and, if `stream` is a terminal, wrapped to its width.
std::string shown_on(int stream, std::string_view text);

// Prints `text` so on standard error, at once.
void show_error(std::string_view text);

}  // namespace fsdp::files
