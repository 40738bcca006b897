#include "console/terminal.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "files/printable.h"
#include "files/wrapped.h"

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

// The first error of standard output; 0: none. Ranks are forked from this process and share it.
class OutputError {
 public:
  OutputError()
      : memory_(mmap(nullptr, sizeof(Cell), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        cell_(memory_ == MAP_FAILED ? &of_this_process_ : new (memory_) Cell(0)) {}
  void note(int error) {
    int none = 0;
    cell_->compare_exchange_strong(none, error);
  }
  int first() const { return cell_->load(); }

 private:
  using Cell = std::atomic<int>;
  Cell of_this_process_{0};
  void* memory_;  // to the end of the process
  Cell* cell_;
};

OutputError output_error;  // before main: no rank is forked yet

// Returns the error; 0: all is written. Another program may have made the pipe one that does not wait.
int write_all(int stream, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(stream, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd ready{stream, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

std::string remedy_for(int error) {
  if (error == ENOSPC || error == EDQUOT) return "Free space on its disk, or send the output elsewhere";
  if (error == EFBIG) return "Raise the limit on file sizes (ulimit -f), or send the output elsewhere";
  return "Send the output elsewhere";
}

}  // namespace

void print(std::string_view text) { draw(fsdp::files::printable_lines(text)); }
void print_error(std::string_view text) { write_all(STDERR_FILENO, fsdp::files::shown_on(STDERR_FILENO, text)); }

void draw(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error != 0 && error != EPIPE) output_error.note(error);  // a reader that has seen enough is no error
}

std::string output_problem() { return output_error.first() == 0 ? "" : std::strerror(output_error.first()); }

int end_output(std::string_view program, Printed printed, int code) {
  const int copy = dup(STDOUT_FILENO);  // files of other hosts may report at the end only
  if (copy >= 0 && close(copy) != 0) output_error.note(errno);
  if (output_problem().empty()) return code;
  const bool is_progress = printed == Printed::Progress;
  print_error(fmt::format("{}: {}cannot write to standard output: {}.{} {}.\n", program,
                          is_progress ? "some of the output was lost: " : "", output_problem(),
                          is_progress ? " The run's folder has its record." : "", remedy_for(output_error.first())));
  return code == 0 && !is_progress ? 1 : code;
}

// DECAWM, 7, is whether lines wrap (https://vt100.net/docs/vt510-rm/DECAWM.html).
void draw_line(std::string_view line) { draw(fmt::format("\r\033[?7l{}\033[J\033[?7h\r", line)); }

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace trainer
