// Runs a command as a person would, and says how it ended.
#pragma once

#include <stdio.h>
#include <sys/wait.h>

#include <string>

struct Ending {
  int code = -1;       // 128 + signal when it was killed
  std::string output;  // standard output and error
};

// The shell's quoting is left to the tests: their arguments need none.
inline Ending run_command(const std::string& command) {
  // With the second variable fsdp-train is loaded once, not twice (fsdp-train/passive_waits.h).
  FILE* pipe = popen(("NO_COLOR= OMP_WAIT_POLICY=passive " + command + " 2>&1 < /dev/null").c_str(), "r");
  Ending ending;
  char buffer[4096];
  while (size_t count = fread(buffer, 1, sizeof buffer, pipe)) ending.output.append(buffer, count);
  const int status = pclose(pipe);
  ending.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ending;
}
