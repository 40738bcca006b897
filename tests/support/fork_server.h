// Processes for tests, forked from one that has LibTorch loaded. To load it takes a fifth of a second, and the tests of
// a room start hundreds of processes.
//
// The server is the test binary, executed once more when the first process is wanted. It runs no test and has one
// thread, so that it may fork; each process that it forks goes on in main() with arguments and variables of its own.
#pragma once

#include <string>
#include <vector>

namespace fsdp::testing {

// At the beginning of main(). In the server it serves until the tests have ended; it returns in the processes that the
// server forks, with their arguments, and at once everywhere else.
void serve_forks(int& argc, char**& argv);

// Starts a process with exactly these arguments and variables ("NAME=value"), the descriptor `output` as its output,
// and the server's working directory and limits. Returns its status, as waitpid() does, when it has ended. Any thread.
int run_forked(const std::vector<std::string>& arguments, const std::vector<std::string>& variables, int output);

}  // namespace fsdp::testing
