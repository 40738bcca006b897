#include "fsdp-plan/calibrate.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fsdp/error.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <vector>

#include "planning/hardware_file.h"

namespace planner {

namespace {

namespace fs = std::filesystem;

// The environment, in which OpenMP's threads wait as they do in fsdp-train (fsdp-train/passive_waits.h).
std::vector<std::string> environment_of_program() {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  if (std::getenv("OMP_WAIT_POLICY") == nullptr && std::getenv("GOMP_SPINCOUNT") == nullptr)
    all.emplace_back("OMP_WAIT_POLICY=passive");
  return all;
}

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) throw fsdp::Error("no descriptor is left for a pipe.");
  }
  ~Pipe() {
    close(ends_[0]);
    close_writing();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int writing() const { return ends_[1]; }
  void close_writing() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  std::string read_all() const {
    std::string text;
    std::array<char, 4096> block;
    for (;;) {
      const ssize_t count = read(ends_[0], block.data(), block.size());
      if (count > 0) text.append(block.data(), static_cast<size_t>(count));
      if (count == 0 || (count < 0 && errno != EINTR)) return text;
    }
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

// Returns 0, or the system's error.
int spawn(const std::string& program, bool quick, int standard_output, pid_t& process) {
  std::vector<std::string> environment = environment_of_program();
  std::vector<char*> entries;
  for (std::string& entry : environment) entries.push_back(entry.data());
  entries.push_back(nullptr);
  std::string word = program, option = "--quick";
  std::array<char*, 3> words = {word.data(), quick ? option.data() : nullptr, nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, standard_output, STDOUT_FILENO);
  const int error = posix_spawn(&process, program.c_str(), &files, nullptr, words.data(), entries.data());
  posix_spawn_file_actions_destroy(&files);
  return error;
}

std::string ending_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("ended by signal {}", WTERMSIG(status));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace

fs::path calibrating_program() {
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error);
  return own.parent_path() / "fsdp-calibrate";
}

Calibration calibrate(const fs::path& program, bool quick) {
  Pipe results;
  pid_t process = -1;
  if (const int error = spawn(program.string(), quick, results.writing(), process); error != 0)
    return {.problem = fmt::format("{} cannot be started: {}. It measures this host. Install it beside fsdp-plan.",
                                   program.string(), std::strerror(error))};
  results.close_writing();
  std::string text = results.read_all();
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) return {.problem = fmt::format("{} {}, and measured nothing.", program.string(), ending_of(status))};
  try {
    trainer::hardware_in(text, "the figures of this host");
  } catch (const fsdp::Error& error) {
    return {.problem = error.what()};
  }
  return {.text = std::move(text)};
}

}  // namespace planner
