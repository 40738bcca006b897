// run_train by calling the program's main in a process that is forked from one with LibTorch loaded: to load it takes
// longer than most of these runs. The main of the tests of fsdp-train, too.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "apps/fsdp-train/train_program.h"
#include "support/fork_server.h"
#include "support/run_tests.h"

int fsdp_train_main(int count, char** arguments);  // of apps/fsdp-train/main.cpp

namespace {

constexpr char kProgram[] = "fsdp-train";

// As run_command has them.
std::vector<std::string> variables() {
  std::vector<std::string> all;
  for (char** variable = environ; *variable; ++variable) {
    if (!std::string_view(*variable).starts_with("GTEST_")) all.emplace_back(*variable);
  }
  all.emplace_back("NO_COLOR=");
  all.emplace_back("OMP_WAIT_POLICY=passive");
  return all;
}

std::string read_to_end(int reader) {
  std::string text;
  char bytes[4096];
  for (ssize_t got; (got = read(reader, bytes, sizeof bytes)) > 0;) text.append(bytes, static_cast<size_t>(got));
  return text;
}

}  // namespace

Ending run_train(const std::string& arguments) {
  if (arguments.find_first_of("'\"\\|;&<>$`*?~{") != std::string::npos)  // a shell's
    return run_command(FSDP_TRAIN_PROGRAM " " + arguments);
  std::vector<std::string> words{kProgram};
  std::istringstream given(arguments);
  for (std::string word; given >> word;) words.push_back(word);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe for a program's output");
  auto running = std::async(std::launch::async, [&words, writer = ends[1]] {
    const int status = fsdp::testing::run_forked(words, variables(), writer);
    close(writer);
    return status;
  });
  Ending ending;
  ending.output = read_to_end(ends[0]);
  close(ends[0]);
  const int status = running.get();
  ending.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ending;
}

int main(int argc, char** argv) {
  fsdp::testing::serve_forks(argc, argv);
  if (argc > 0 && std::string_view(argv[0]) == kProgram) {
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    close(nothing);
    return fsdp_train_main(argc, argv);
  }
  return fsdp::testing::run_tests(argc, argv);
}
