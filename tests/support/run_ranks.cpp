#include "support/run_ranks.h"

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "support/fork_server.h"
#include "support/rank_generators.h"
#include "world/rank.h"

namespace fsdp::testing {

namespace {

// Which of a test's calls the process was executed for.
constexpr char kCall[] = "FSDP_TEST_CALL";

std::string current_test() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  return std::string(info->test_suite_name()) + "." + info->name();
}

// Counts the calls of this test in this process.
int next_call() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  static std::map<std::string, int> calls;
  static ::testing::TimeInMillis run = 0;  // tells repetitions apart
  if (std::exchange(run, info->result()->start_timestamp()) != info->result()->start_timestamp()) calls.clear();
  return calls[current_test()]++;
}

bool starts_with(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }

// Without what belongs to this run of GoogleTest, or to a launcher that this test is itself a rank of.
std::vector<std::string> inherited_variables() {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry; ++entry) {
    std::string variable = *entry;
    bool drop = false;
    for (const char* start : {"GTEST_", "RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "LOCAL_WORLD_SIZE=", "MASTER_", "SLURM_",
                              "OMPI_", "PMIX_", "TORCHELASTIC_", "FSDP_JOB_SECRET=", "OMP_NUM_THREADS=", kCall})
      drop |= starts_with(variable, start);
    if (!drop) kept.push_back(variable);
  }
  return kept;
}

std::vector<std::string> variables_for(int call, const std::vector<std::string>& changes) {
  std::vector<std::string> variables = inherited_variables();
  variables.push_back("OMP_NUM_THREADS=1");
  variables.push_back(std::string(kCall) + "=" + std::to_string(call));
  for (const std::string& change : changes) {
    std::string name = change.substr(0, change.find('=')) + "=";
    std::erase_if(variables, [&](const std::string& variable) { return starts_with(variable, name); });
    if (change.find('=') != std::string::npos) variables.push_back(change);
  }
  return variables;
}

// Whether the dynamic linker or a library reads this variable when it is loaded. A forked process has loaded them all.
bool is_read_early(const std::string& change) {
  for (const char* start : {"LD_", "OMP_", "MALLOC_", "GLIBC_TUNABLES", "TORCH_"}) {
    if (starts_with(change, start)) return true;
  }
  return false;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

int run_executed(std::vector<std::string> arguments, std::vector<std::string> variables, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  pid_t pid = -1;
  int error =
      posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, pointers(arguments).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("the test cannot execute itself");
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

// Runs this program once more, for this test alone. Returns its status.
int run_again(int call, const std::vector<std::string>& changes, int output) {
  const std::vector<std::string> arguments{"/proc/self/exe", "--gtest_filter=" + current_test(), "--gtest_brief=1",
                                           "--gtest_color=no"};
  const std::vector<std::string> variables = variables_for(call, changes);
  return std::ranges::any_of(changes, is_read_early) ? run_executed(arguments, variables, output)
                                                     : run_forked(arguments, variables, output);
}

std::string read_to_end(int reader) {
  std::string text;
  char bytes[4096];
  for (ssize_t got; (got = read(reader, bytes, sizeof bytes)) > 0;) text.append(bytes, got);
  return text;
}

RunResult spawn_and_wait(int call, const std::vector<std::string>& changes) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe for a test's output");
  auto running = std::async(std::launch::async, [call, &changes, writer = ends[1]] {
    const auto closed = std::shared_ptr<void>(nullptr, [writer](void*) { close(writer); });
    return run_again(call, changes, writer);
  });
  RunResult result;
  result.output = read_to_end(ends[0]);
  close(ends[0]);
  const int status = running.get();
  result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

// What a test found so far: failures, most of all.
int found_parts() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return test == nullptr ? 0 : test->result()->total_part_count();
}

// Whether the test has failed since then. In another call's process results of earlier calls are empty, and what the
// test expects of them there is no matter.
bool has_failed_since(int parts) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  for (int i = parts; i < found_parts(); ++i) {
    if (test->result()->GetTestPartResult(i).failed()) return true;
  }
  return false;
}

[[noreturn]] void run_and_exit(const std::function<int()>& body) {
  const int before = found_parts();
  int code = 1;
  try {
    code = body();
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
  }
  if (code == 0 && has_failed_since(before)) code = 1;
  std::cout.flush();
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

RunResult run_process(const std::function<int()>& body, const std::vector<std::string>& variables) {
  int call = next_call();
  const char* wanted = std::getenv(kCall);
  if (!wanted) return spawn_and_wait(call, variables);
  if (std::to_string(call) == wanted) run_and_exit(body);
  return {};
}

std::vector<RunResult> run_processes(const std::function<int()>& body,
                                     const std::vector<std::vector<std::string>>& variables) {
  int call = next_call();
  if (const char* wanted = std::getenv(kCall)) {
    if (std::to_string(call) == wanted) run_and_exit(body);
    return std::vector<RunResult>(variables.size());
  }
  std::vector<std::future<RunResult>> running;
  for (const auto& changes : variables) {
    running.push_back(std::async(std::launch::async, [call, &changes] { return spawn_and_wait(call, changes); }));
  }
  std::vector<RunResult> results;
  for (auto& one : running) results.push_back(one.get());
  return results;
}

std::pair<RunResult, RunResult> run_two_processes(const std::function<int()>& body,
                                                  const std::vector<std::string>& first,
                                                  const std::vector<std::string>& second) {
  const std::vector<RunResult> results = run_processes(body, {first, second});
  return {results[0], results[1]};
}

RunResult run_ranks_to_end(int ranks, const std::function<void(World&)>& body, LaunchOptions options) {
  options.ranks = ranks;
  auto checked = [&body, before = found_parts()](World& world) {
    body(world);
    if (has_failed_since(before)) throw std::runtime_error("an assertion of the test failed in this rank");
  };
  return run_process([&] { return launch(options, checked); });
}

void run_ranks(int ranks, const std::function<void(World&)>& body, const LaunchOptions& options) {
  if (std::getenv(kCall)) return;  // another call's process
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto on_one_thread = [&body](World& world) {
    at::set_num_threads(1);
    body(world);
  };
  std::vector<std::string> errors(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const RankGenerator generator;
      world::run_thread({.rank = rank, .size = ranks, .local_rank = rank, .local_size = ranks}, store, options,
                        on_one_thread, [&](const world::RankError& error) { errors[rank] = error.message; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(errors[rank], "") << "rank " << rank << " of " << ranks;
}

void run_rank_processes(int ranks, const std::function<void(World&)>& body, LaunchOptions options) {
  RunResult result = run_ranks_to_end(ranks, body, options);
  if (std::getenv(kCall)) return;  // another call's process
  EXPECT_EQ(result.exit_code, 0) << ranks << " ranks wrote:\n" << result.output;
}

std::string free_port() {
  // Below the ports that Linux gives to programs that ask for any (/proc/sys/net/ipv4/ip_local_port_range): a test
  // listens a while after it has asked here.
  std::random_device seed;
  std::uniform_int_distribution<int> port(10'000, 32'767);
  while (true) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port(seed)));
    if (fd < 0) throw std::runtime_error("socket() failed: too many open files?");
    const bool free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(fd);
    if (free) return std::to_string(ntohs(address.sin_port));
  }
}

std::vector<RunResult> run_on_hosts_to_end(const Hosts& hosts, const std::function<void(World&)>& body,
                                           LaunchOptions options, const VariablesOf& more) {
  const std::string port = free_port();
  std::vector<std::vector<std::string>> variables;
  for (int rank = 0; rank < hosts.size(); ++rank) {
    variables.push_back({"RANK=" + std::to_string(rank), "WORLD_SIZE=" + std::to_string(hosts.size()),
                         "LOCAL_RANK=" + std::to_string(rank % hosts.ranks),
                         "LOCAL_WORLD_SIZE=" + std::to_string(hosts.ranks), "MASTER_ADDR=127.0.0.1",
                         "MASTER_PORT=" + port, "TORCHELASTIC_RUN_ID=hosts", "GLOO_SOCKET_IFNAME=lo"});
    if (!more) continue;
    for (std::string& one : more(rank)) variables.back().push_back(std::move(one));
  }
  return run_processes([&] { return launch(options, body); }, variables);
}

void run_on_hosts(const Hosts& hosts, const std::function<void(World&)>& body, LaunchOptions options,
                  const VariablesOf& more) {
  const std::vector<RunResult> results = run_on_hosts_to_end(hosts, body, options, more);
  if (std::getenv(kCall)) return;  // another call's process
  for (size_t rank = 0; rank < results.size(); ++rank)
    EXPECT_EQ(results[rank].exit_code, 0) << "rank " << rank << " wrote:\n" << results[rank].output;
}

}  // namespace fsdp::testing
