// How a job starts: as what its launcher's environment says, or as ranks forked here.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "collectives/backends.h"
#include "files/standard_streams.h"
#include "files/wrapped.h"
#include "fsdp/world.h"
#include "memory/held_memory.h"
#include "world/environment.h"
#include "world/error_file.h"
#include "world/local_rendezvous.h"
#include "world/output.h"
#include "world/rank.h"
#include "world/rank_limits.h"
#include "world/restarts.h"
#include "world/supervisor.h"

namespace fsdp {

namespace {

constexpr int kUsageError = 2;

// More would overflow in the libraries below, and no job waits longer.
constexpr std::chrono::hours kLongestTimeout{365 * 24};

void say(const std::string& message) {
  world::write_patiently(STDERR_FILENO, files::shown_on(STDERR_FILENO, message_prefix() + message) + "\n");
}

// A full disk under a log file ends no job.
std::string lost_output_text(int error) {
  return fmt::format("some output of the ranks was lost: cannot write to standard output: {}.", std::strerror(error));
}

bool may_restart(const LaunchOptions& options) { return options.max_restarts > 0 || options.restart_with; }

std::vector<std::string> problems_of(const LaunchOptions& options) {
  std::vector<std::string> problems;
  if (options.ranks < 1) problems.push_back(fmt::format("ranks is {}, expected at least 1.", options.ranks));
  const std::string problem = collectives::problem_of_backend(options.backend);
  if (!problem.empty()) problems.push_back(problem);
  if (options.timeout.count() <= 0)
    problems.push_back(fmt::format("timeout is {} ms, expected more than 0.", options.timeout.count()));
  if (options.max_restarts < 0)
    problems.push_back(fmt::format("max_restarts is {}, expected at least 0.", options.max_restarts));
  if (options.hot_restart && !may_restart(options))
    problems.push_back("hot_restart is set, and max_restarts is 0: nothing would be started again. Set max_restarts.");
  return problems;
}

// A forked process has only the thread that forked: locks that others held stay locked, and OpenMP waits for its
// workers for ever.
void check_single_threaded(int ranks) {
  std::error_code missing;
  std::filesystem::directory_iterator tasks("/proc/self/task", missing);
  FSDP_CHECK(!missing,
             "launch: /proc/self/task cannot be read: {}. The ranks of a host find each other's memory by /proc. Mount "
             "it (mount -t proc proc /proc), or start one rank.",
             missing.message());
  auto threads = std::distance(begin(tasks), end(tasks));
  FSDP_CHECK(threads == 1,
             "launch: found {} threads in this process, expected 1: {} ranks cannot be forked from it. Call "
             "launch before anything starts a thread, LibTorch's operators included, or start the ranks with torchrun.",
             threads, ranks);
}

world::JobEnding run_job(const LaunchOptions& options, int restarts, const memory::HeldMemory* held,
                         const std::function<void(World&)>& body) {
  world::LauncherShares shares{world::make_anonymous_file(), world::RankErrors(options.ranks), held};
  world::Supervisor supervisor(shares.errors, held);
  return supervisor.run(options.ranks, options.plain_rank0, [&](int rank) {
    world::Identity identity{rank, options.ranks, rank, options.ranks, restarts};
    return world::run_forked(identity, shares, options, body);
  });
}

// Before `ranks` are forked in place of the failed ones. Returns a sentence.
std::string prepare_held(std::optional<memory::HeldMemory>& held, int ranks, bool killed) {
  if (ranks != held->ranks()) {
    held.emplace(ranks);
    return " The state in memory is for another number of ranks.";
  }
  if (!killed) held->forget_unless_taken_over();
  const memory::HeldMemory::Left left = held->left();
  held->begin();
  if (left.step) return fmt::format(" Their state after {} steps is in memory.", *left.step);
  return left.problem.empty() ? "" : fmt::format(" Their state in memory is not whole: {}.", left.problem);
}

int supervise(LaunchOptions options, const std::function<void(World&)>& body) {
  if (const std::string problem = world::problem_of_ranks(options.ranks); !problem.empty()) {
    say("launch: " + problem);
    return kUsageError;
  }
  using Clock = std::chrono::steady_clock;
  world::Restarts restarts(options);
  std::optional<memory::HeldMemory> held;
  if (options.hot_restart) held.emplace(options.ranks);
  for (;;) {
    check_single_threaded(options.ranks);
    const auto began = Clock::now();
    world::JobEnding ending = run_job(options, restarts.count(), held ? &*held : nullptr, body);
    world::Restarts::Again again;
    if (ending.code != 0 && !ending.interrupted)
      again = restarts.after({.ranks = options.ranks, .lost = ending.lost, .code = ending.code},
                             std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began));
    if (!again.message.empty()) ending.message += " " + again.message;
    if (held && again.ranks > 0) ending.message += prepare_held(held, again.ranks, ending.killed);
    if (!ending.message.empty()) say(ending.message);
    if (ending.output_error != 0) say(lost_output_text(ending.output_error));
    if (again.ranks == 0) return ending.code;
    options.ranks = again.ranks;
    std::this_thread::sleep_for(again.pause);
  }
}

}  // namespace

int launch(const LaunchOptions& given, const std::function<void(World&)>& body) {
  files::open_standard_streams();
  std::vector<std::string> problems = problems_of(given);
  for (const std::string& problem : problems) say("launch: " + problem);
  if (!problems.empty()) return kUsageError;
  LaunchOptions options = given;
  options.timeout = std::min<std::chrono::milliseconds>(given.timeout, kLongestTimeout);
  std::optional<world::LauncherJob> job;
  try {
    job = world::find_launcher(world::read_environment());
  } catch (const Error& error) {
    files::show_error(error.what() + std::string("\n"));
    return kUsageError;
  }
  if (job) return world::run_launched(*job, options, body);
  if (options.ranks == 1 && !may_restart(options)) return world::run_alone(options, body);
  return supervise(options, body);
}

}  // namespace fsdp
