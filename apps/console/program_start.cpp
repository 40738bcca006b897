#include "console/program_start.h"

#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <initializer_list>

#include "files/standard_streams.h"

namespace trainer {

namespace {

[[noreturn]] void refuse_to_start(const char* name, const char* problem) {
  constexpr int kUsageProblem = 2;  // the exit code
  for (const char* part : {name, ": ", problem, "\n"}) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, part, std::strlen(part));
  }
  _exit(kUsageProblem);
}

void check_stack(const char* name) {
  constexpr rlim_t kLeastBytes = 128 << 10;  // with less, LibTorch ends by signal 11
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeastBytes) return;
  refuse_to_start(name, "the limit of the stack is less than 128 kB. Raise it: ulimit -s 8192");
}

// MKL would end the process, in words of its own.
void check_folder(const char* name) {
  char path[PATH_MAX];
  if (getcwd(path, sizeof path) != nullptr || errno != ENOENT) return;
  refuse_to_start(name, "the working folder was removed. Change to a folder that exists (cd), and start again.");
}

void set_signals() {
  std::signal(SIGCHLD, SIG_DFL);
  std::signal(SIGXFSZ, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace

void start_program(const char* name) {
  fsdp::files::open_standard_streams();
  set_signals();
  check_stack(name);
  check_folder(name);
}

}  // namespace trainer
