#include "console/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "files/printable.h"

namespace trainer {

Terminal standard_output() {
  const char* type = std::getenv("TERM");
  const bool capable = type != nullptr && std::string_view(type) != "dumb";
  const char* no_color = std::getenv("NO_COLOR");
  const bool plain = no_color != nullptr && *no_color != '\0';
  const bool interactive = isatty(STDOUT_FILENO) == 1 && capable;
  return {.interactive = interactive, .colour = interactive && !plain};
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

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace trainer
