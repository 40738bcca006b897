#include "world/rank_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>

#include "base/error.h"
#include "files/wrapped.h"

namespace fsdp::world {

namespace {

// Debian 12's C library has no function for it.
int open_process_handle(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

void flush_streams() {
  std::cout.flush();
  std::cerr.flush();
  std::clog.flush();
  std::fflush(nullptr);
}

// The hexadecimal number in a line of /proc/<pid>/status, 0 where it cannot be read.
uint64_t signals_in(const std::filesystem::path& status, const std::string& field) {
  std::ifstream file(status);
  for (std::string line; std::getline(file, line);)
    if (line.rfind(field, 0) == 0) return std::stoull(line.substr(field.size()), nullptr, 16);
  return 0;
}

uint64_t bit_of(int signal) { return uint64_t{1} << (signal - 1); }

}  // namespace

std::string ProcessEnding::describe() const {
  if (taken) return "ended, and its exit code is lost: a SIGCHLD handler or a thread of this process waits for it, too";
  return signal ? fmt::format("was killed by signal {} ({})", signal, strsignal(signal))
                : fmt::format("failed with exit code {}", exit_code);
}

RankProcess::RankProcess(int rank, OutputStreams* streams, const std::function<void()>& before_run,
                         const std::function<int()>& run)
    : rank_(rank) {
  if (streams) {
    std::string prefix = fmt::format("[rank {}] ", rank);
    output_ = std::make_unique<OutputPipe>(prefix, streams->output);
    error_ = std::make_unique<OutputPipe>(prefix, streams->error);
  }
  flush_streams();  // or the rank would write what waits here a second time
  pid_t parent = getpid();
  pid_ = fork();
  FSDP_CHECK(pid_ >= 0, "rank {} cannot be started: {}. Use fewer ranks, or raise the limit of processes (ulimit -u).",
             rank, std::strerror(errno));
  if (pid_ == 0) become_rank(parent, before_run, run);
  if (output_) output_->close_writer();
  if (error_) error_->close_writer();
  handle_ = open_process_handle(pid_);
  if (handle_ >= 0) return;
  int error = errno;
  signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
  FSDP_CHECK(false, "rank {} cannot be watched (pidfd_open: {}). Linux 5.3 or newer is needed.", rank,
             std::strerror(error));
}

RankProcess::~RankProcess() {
  if (pid_ > 0 && running()) {
    signal(SIGKILL);
    wait();
  }
  if (handle_ >= 0) close(handle_);
}

void RankProcess::become_rank(pid_t parent, const std::function<void()>& before_run, const std::function<int()>& run) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before the request above
  int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  if (output_) output_->become(STDOUT_FILENO);
  if (error_) error_->become(STDERR_FILENO);
  output_.reset();
  error_.reset();
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  int code = 1;
  try {
    before_run();
    code = run();
  } catch (const std::exception& failure) {
    files::show_error(failure.what() + std::string("\n"));
  }
  flush_streams();
  // Not exit(): the handlers and static objects are those of the process that was forked, which runs them itself, and
  // they may wait for threads that only that process has.
  _exit(code);
}

void RankProcess::forget() { pid_ = -1; }

bool RankProcess::reap() { return end(WNOHANG); }
void RankProcess::wait() { end(0); }

bool RankProcess::end(int options) {
  int status = 0;
  if (ending_) return true;
  pid_t ended;
  do ended = waitpid(pid_, &status, options);
  while (ended < 0 && errno == EINTR);
  if (ended < 0 && errno == ECHILD) {
    ending_ = {.exit_code = 1, .taken = true};
  } else if (ended != pid_) {
    return false;
  } else {
    ending_ = WIFSIGNALED(status) ? ProcessEnding{.signal = WTERMSIG(status)}
                                  : ProcessEnding{.exit_code = WEXITSTATUS(status)};
  }
  return true;
}

void RankProcess::signal(int number) {
  if (running()) kill(pid_, number);
}

bool RankProcess::catches(int number) const {
  return (signals_in(fmt::format("/proc/{}/status", pid_), "SigCgt:") & bit_of(number)) != 0;
}

bool RankProcess::handles(int number) const {
  if (!catches(number)) return false;
  std::error_code gone;
  for (std::filesystem::directory_iterator thread(fmt::format("/proc/{}/task", pid_), gone), end;
       !gone && thread != end; thread.increment(gone)) {
    if ((signals_in(thread->path() / "status", "SigBlk:") & bit_of(number)) == 0) return true;
  }
  return false;
}

void kill_all(const std::vector<std::unique_ptr<RankProcess>>& ranks) {
  for (const auto& rank : ranks) rank->signal(SIGKILL);
  for (const auto& rank : ranks) rank->wait();
}

}  // namespace fsdp::world
