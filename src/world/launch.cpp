// How a job starts: as what its launcher's environment says, or as ranks forked here.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "collectives/backends.h"
#include "files/printable.h"
#include "fsdp/world.h"
#include "world/environment.h"
#include "world/error_file.h"
#include "world/local_rendezvous.h"
#include "world/output.h"
#include "world/rank.h"
#include "world/supervisor.h"

namespace fsdp {

namespace {

constexpr int kUsageError = 2;

// More would overflow in the libraries that are told, and nobody waits for longer.
constexpr std::chrono::hours kLongestTimeout{365 * 24};

void say(const std::string& message) {
  world::write_patiently(STDERR_FILENO, files::printable_lines(message_prefix() + message) + "\n");
}

std::vector<std::string> problems_of(const LaunchOptions& options) {
  std::vector<std::string> problems;
  if (options.ranks < 1) problems.push_back(fmt::format("ranks is {}, expected at least 1.", options.ranks));
  const std::string problem = collectives::problem_of_backend(options.backend);
  if (!problem.empty()) problems.push_back(problem);
  if (options.timeout.count() <= 0)
    problems.push_back(fmt::format("timeout is {} ms, expected more than 0.", options.timeout.count()));
  if (options.max_restarts < 0)
    problems.push_back(fmt::format("max_restarts is {}, expected at least 0.", options.max_restarts));
  return problems;
}

// A forked process has only the thread that forked: locks that others held stay locked, and OpenMP waits for its
// workers for ever.
void check_single_threaded(int ranks) {
  std::filesystem::directory_iterator tasks("/proc/self/task");
  auto threads = std::distance(begin(tasks), end(tasks));
  FSDP_CHECK(threads == 1,
             "launch: found {} threads in this process, expected 1: {} ranks cannot be forked from it. Call "
             "launch before anything starts a thread, LibTorch's operators included, or start the ranks with torchrun.",
             threads, ranks);
}

world::JobEnding run_job(const LaunchOptions& options, const std::function<void(World&)>& body) {
  const files::Descriptor store = world::make_anonymous_file();
  world::RankErrors errors(options.ranks);
  world::Supervisor supervisor(errors);
  return supervisor.run(options.ranks, options.plain_rank0, [&](int rank) {
    world::Identity identity{rank, options.ranks, rank, options.ranks};
    return world::run_forked(identity, store, errors, options, body);
  });
}

int supervise(const LaunchOptions& options, const std::function<void(World&)>& body) {
  for (int restarts = 0;; ++restarts) {
    check_single_threaded(options.ranks);
    world::JobEnding ending = run_job(options, body);
    bool again = ending.code != 0 && !ending.interrupted && restarts < options.max_restarts;
    if (again)
      ending.message +=
          fmt::format(" Starting all {} again (restart {} of {}).", options.ranks, restarts + 1, options.max_restarts);
    if (!ending.message.empty()) say(ending.message);
    if (!again) return ending.code;
  }
}

}  // namespace

int launch(const LaunchOptions& given, const std::function<void(World&)>& body) {
  std::vector<std::string> problems = problems_of(given);
  for (const std::string& problem : problems) say("launch: " + problem);
  if (!problems.empty()) return kUsageError;
  LaunchOptions options = given;
  options.timeout = std::min<std::chrono::milliseconds>(given.timeout, kLongestTimeout);
  std::optional<world::LauncherJob> job;
  try {
    job = world::find_launcher(world::read_environment());
  } catch (const Error& error) {
    std::cerr << files::printable_lines(error.what()) << std::endl;
    return kUsageError;
  }
  if (job) return world::run_launched(*job, options, body);
  if (options.ranks == 1) return world::run_alone(options, body);
  return supervise(options, body);
}

}  // namespace fsdp
