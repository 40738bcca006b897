// Real ranks for tests: threads of the test's process, or processes as `launch` forks them.
//
// Threads are the rule: they take a tenth of the time. The ranks share all that the body captures, so let it make its
// models and data itself. Each has a default generator of its own (support/rank_generators.h), and computes on one
// thread, so that bits compare. Processes are for what belongs to a process: kills, signals, exits, its memory, its
// output, variables of the environment, settings of LibTorch.
//
// For processes, the test binary runs once more, for this test alone, and calls `launch` there: the test process itself
// has threads by now and must not be forked (support/fork_server.h). The body sees what the test's function captured
// before the call, made afresh in each rank; it may use EXPECT_ and ASSERT_, and a rank whose assertions fail exits
// with 1. OMP_NUM_THREADS is 1. A test may call these several times; what lies between the calls runs once more in each
// of them, so let it be EXPECT_, not ASSERT_, that looks at an earlier call's result.
#pragma once

#include <chrono>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/world.h"

namespace fsdp::testing {

// Short enough for ctest to see a message and not its own timeout.
inline LaunchOptions test_options() { return {.timeout = std::chrono::seconds(60)}; }
// For ranks that find a failure by its cause: with a timeout so long that a test which runs into it is a hang, which
// ctest ends.
inline LaunchOptions patient_options() { return {.timeout = std::chrono::hours(1)}; }

// Runs ranks as threads, over any backend but nccl. Expects that every rank succeeds; shows their errors if not.
void run_ranks(int ranks, const std::function<void(World&)>& body, const LaunchOptions& options = test_options());
// The same with processes; shows what they wrote if one fails.
void run_rank_processes(int ranks, const std::function<void(World&)>& body, LaunchOptions options = test_options());

// A parameter of tests that hold on every backend.
struct Job {
  int ranks = 2;
  std::string backend = "auto";

  friend void PrintTo(const Job& job, std::ostream* out) { *out << job.backend << job.ranks; }
};
inline LaunchOptions options_of(const Job& job) {
  LaunchOptions options = test_options();
  options.backend = job.backend;
  return options;
}
inline void run_ranks(const Job& job, const std::function<void(World&)>& body) {
  run_ranks(job.ranks, body, options_of(job));
}
inline void run_rank_processes(const Job& job, const std::function<void(World&)>& body) {
  run_rank_processes(job.ranks, body, options_of(job));
}

struct RunResult {
  int exit_code = -1;  // 128 + signal when the launching process was killed
  std::string output;  // stdout and stderr
};

// Runs ranks that may fail, as processes.
RunResult run_ranks_to_end(int ranks, const std::function<void(World&)>& body, LaunchOptions options = test_options());

// Runs `body` in a process of its own, which exits with what it returns: for tests of `launch` itself. `variables` are
// set ("NAME=value") or removed ("NAME") there.
RunResult run_process(const std::function<int()>& body, const std::vector<std::string>& variables = {});

// Runs several such processes at once, which differ by their variables. In one of them it returns empty results.
std::vector<RunResult> run_processes(const std::function<int()>& body,
                                     const std::vector<std::vector<std::string>>& variables);
std::pair<RunResult, RunResult> run_two_processes(const std::function<int()>& body,
                                                  const std::vector<std::string>& first,
                                                  const std::vector<std::string>& second);

// A TCP port of this machine that is free now.
std::string free_port();

// Ranks on hosts that this machine pretends to be: processes whose environment says so, as torchrun's on each host.
struct Hosts {
  int hosts = 2;
  int ranks = 2;  // of each
  int size() const { return hosts * ranks; }

  friend void PrintTo(const Hosts& hosts, std::ostream* out) { *out << hosts.hosts << "x" << hosts.ranks; }
};
// More variables of a rank's process, as run_process takes them.
using VariablesOf = std::function<std::vector<std::string>(int rank)>;
// Expects that every rank succeeds.
void run_on_hosts(const Hosts& hosts, const std::function<void(World&)>& body, LaunchOptions options = test_options(),
                  const VariablesOf& more = {});
// Runs ranks that may fail; results by rank.
std::vector<RunResult> run_on_hosts_to_end(const Hosts& hosts, const std::function<void(World&)>& body,
                                           LaunchOptions options = test_options(), const VariablesOf& more = {});

}  // namespace fsdp::testing
