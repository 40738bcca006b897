// A forked rank, as its supervisor holds it: the process, a handle that polls readable when it ends, and its output.
//
// Owned and used by the supervisor's one thread. The destructor kills what still runs.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "world/output.h"

namespace fsdp::world {

// How a process ended.
struct ProcessEnding {
  int exit_code = 0;
  int signal = 0;      // that killed it, or 0
  bool taken = false;  // by another waitpid of this process: exit_code is a guess
  bool failed() const { return exit_code != 0 || signal != 0; }
  int code() const { return signal ? 128 + signal : exit_code; }
  std::string describe() const;  // "was killed by signal 9 (Killed)"
};

// This process's own.
struct OutputStreams {
  OutputStream output{STDOUT_FILENO};
  OutputStream error{STDERR_FILENO};
};

class RankProcess {
 public:
  // Forks. In the new process, calls `before_run`, which lets go of what belongs to the supervisor, then `run`, and
  // exits with what that returns. `streams` are where its output goes, a line at a time; none: it has them itself.
  // Throws Error when the system has no more processes.
  RankProcess(int rank, OutputStreams* streams, const std::function<void()>& before_run,
              const std::function<int()>& run);
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  int rank() const { return rank_; }
  bool running() const { return !ending_; }
  const std::optional<ProcessEnding>& ending() const { return ending_; }
  int handle() const { return handle_; }
  OutputPipe* standard_output() { return output_.get(); }  // null when plain
  OutputPipe* standard_error() { return error_.get(); }

  void forget();  // in another forked rank: this process is none of its children
  bool reap();    // whether it has ended
  void wait();    // until it has
  void signal(int number);
  bool catches(int number) const;  // whether it has a handler for that signal
  bool handles(int number) const;  // and a thread that does not block it

 private:
  bool end(int options);
  [[noreturn]] void become_rank(pid_t parent, const std::function<void()>& before_run, const std::function<int()>& run);

  int rank_;
  std::unique_ptr<OutputPipe> output_;
  std::unique_ptr<OutputPipe> error_;
  pid_t pid_ = -1;
  int handle_ = -1;
  std::optional<ProcessEnding> ending_;
};

// All at once, so that none has to wait for another's end.
void kill_all(const std::vector<std::unique_ptr<RankProcess>>& ranks);

}  // namespace fsdp::world
