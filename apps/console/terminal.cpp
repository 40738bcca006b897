#include "console/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "files/printable.h"

namespace trainer {

namespace {

// By name, as the first of these variables that is set has it (POSIX.1-2017, 8.2): a locale that is not installed on
// this machine says all the same how the terminal reads text.
bool locale_is_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    std::string name(value);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return name.find("utf-8") != std::string::npos || name.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace

Terminal standard_output() {
  const char* type = std::getenv("TERM");
  const bool capable = type != nullptr && std::string_view(type) != "dumb";
  const char* no_color = std::getenv("NO_COLOR");
  const bool plain = no_color != nullptr && *no_color != '\0';
  const bool interactive = isatty(STDOUT_FILENO) == 1 && capable;
  return {.interactive = interactive, .colour = interactive && !plain, .utf8 = locale_is_utf8()};
}

namespace {

void print_to(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

}  // namespace

void print(std::string_view text) { draw(fsdp::files::printable_lines(text)); }
void print_error(std::string_view text) { print_to(stderr, fsdp::files::printable_lines(text)); }
void draw(std::string_view text) { print_to(stdout, text); }

// DECAWM, 7, is whether lines wrap (https://vt100.net/docs/vt510-rm/DECAWM.html).
void draw_line(std::string_view line) { draw(fmt::format("\r\033[?7l{}\033[J\033[?7h\r", line)); }

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace trainer
