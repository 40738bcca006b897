// fsdp-train in the background, to be stopped, killed and asked to end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <future>
#include <string>
#include <vector>

#include "apps/command.h"

class Job {
 public:
  // Starts it as the leader of a process group of its own, as a shell does. Returns when RUN/metrics.jsonl has so many
  // steps, or the job has ended. `run` is the folder that the arguments name.
  Job(const std::string& arguments, const std::string& run, size_t steps);
  ~Job();  // kills it where the test has not seen its end
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  pid_t launcher() const { return launcher_; }
  pid_t group() const { return -launcher_; }  // for kill(2): all its processes, as Ctrl-C means it
  // The process that is this rank of several: ranks are forked in order.
  pid_t rank(int index) const;
  bool has_ranks(size_t count) const { return ranks().size() == count; }
  // Whether the launcher has a handler for the signal.
  bool handles(int signal) const;
  // Whether it takes signals as wishes, which it does from the first step on. Nothing else handles all of these.
  bool takes_wishes() const { return handles(SIGINT) && handles(SIGTERM) && handles(SIGUSR1); }
  bool handles_in_rank(int signal, int index) const;
  bool ends_within(std::chrono::microseconds time) const { return ending_.wait_for(time) == std::future_status::ready; }

  void send(int signal, pid_t process) const;

  // Waits for its end.
  Ending end() { return ending_.get(); }
  // Sends the signal, and waits for the end, that of the ranks too.
  Ending end_by(int signal, pid_t process);

 private:
  std::vector<pid_t> ranks() const;
  static bool process_handles(int signal, pid_t process);

  pid_t launcher_ = -1;
  std::future<Ending> ending_;
};
