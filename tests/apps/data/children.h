// Processes forked by tests: the executable has no threads where it forks.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace data {

// Runs `body` in a process of its own, which exits with what it returns.
inline pid_t forked(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  return child;
}

// 128 + the signal that killed it.
inline int exit_code_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

inline int exit_code_of(const std::function<int()>& body) { return exit_code_of(forked(body)); }

}  // namespace data
