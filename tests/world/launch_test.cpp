// Jobs of forked ranks: their output, their failures, and what they leave behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <thread>

#include "parallel/for_parts.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "world/state.h"

namespace fsdp {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_process;
using testing::run_ranks_to_end;
using testing::RunResult;
using ::testing::StartsWith;
using namespace std::chrono_literals;

// Whoever stays is ended by others, or the test is by ctest.
[[noreturn]] void stay(World&) {
  for (;;) pause();
}

TEST(Launch, PrefixesWholeLines) {
  RunResult result = run_ranks_to_end(2, [](World& world) {
    std::cout << "to stdout " << world.rank() << "\n";
    std::cerr << "to stderr " << world.rank() << "\n";
    std::printf("no newline %d", world.rank());
  });
  EXPECT_EQ(result.exit_code, 0);
  for (const char* line : {"[rank 0] to stdout 0\n", "[rank 1] to stdout 1\n", "[rank 0] to stderr 0\n",
                           "[rank 1] to stderr 1\n", "[rank 0] no newline 0\n", "[rank 1] no newline 1\n"})
    EXPECT_THAT(result.output, HasSubstr(line));
}

TEST(Launch, LeavesRank0sOutputAlone) {
  RunResult result = run_ranks_to_end(2, [](World& world) { std::cout << "from " << world.rank() << std::endl; },
                                      {.plain_rank0 = true});
  EXPECT_THAT(result.output, AllOf(HasSubstr("from 0\n"), HasSubstr("[rank 1] from 1\n"), Not(HasSubstr("[rank 0]"))));
}

TEST(Launch, GivesNoRankAStandardInput) {
  RunResult result = run_ranks_to_end(2, [](World&) {
    char byte;
    EXPECT_EQ(read(STDIN_FILENO, &byte, 1), 0);
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST(Launch, ReportsAllWrongOptionsAtOnce) {
  RunResult result =
      run_process([] { return launch({.ranks = 0, .backend = "mpi", .timeout = 0ms, .max_restarts = -1}, stay); });
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, AllOf(HasSubstr("ranks is 0"), HasSubstr("'mpi'"), HasSubstr("timeout is 0 ms"),
                                   HasSubstr("max_restarts is -1")));
}

TEST(Launch, RefusesToForkAProcessWithThreads) {
  RunResult result = run_process([] {
    std::thread thread([] { std::this_thread::sleep_for(200ms); });
    try {
      launch({.ranks = 2}, stay);
    } catch (const Error& error) {
      std::cout << error.what() << std::endl;
    }
    thread.join();
    return 0;
  });
  EXPECT_THAT(result.output, HasSubstr("found 2 threads in this process, expected 1"));
}

// Also those of a later launch, as the process that forks starts no thread itself.
TEST(Launch, HasRanksThatComputeOnSeveralThreads) {
  RunResult result = run_process([] {
    const auto compute = [](World& world) {
      at::set_num_threads(2);
      std::atomic<int64_t> sum = 0;
      parallel::for_parts(2, 1, [&](int64_t begin, int64_t end) { sum += end * 10 + begin; });
      torch::Tensor sums = torch::full({1 << 20}, sum.load());
      sums.mul_(2);  // by LibTorch's loops
      world.barrier();
      if (sums.sum().item<int64_t>() != (int64_t{1} << 20) * 2 * 31) throw Error("a part was left out");
    };
    const int first = launch({.ranks = 2}, compute);
    return first + launch({.ranks = 2}, compute);
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST(Launch, RunsOneRankInThisProcess) {
  RunResult result = run_process([] {
    pid_t here = getpid();
    bool same = false;
    int code = launch({}, [&](World& world) { same = getpid() == here && world.size() == 1; });
    return code == 0 && same ? 0 : 1;
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(run_process([] { return launch({}, [](World&) { throw Error("no data"); }); }).exit_code, 1);
}

TEST(Launch, NamesTheRankThatThrew) {
  RunResult result = run_ranks_to_end(
      2,
      [](World& world) {
        if (world.rank() == 1) throw std::runtime_error("no such file: tokens.bin");
        world.barrier();
      },
      testing::patient_options());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.output,
            "[fsdp rank 1/2] no such file: tokens.bin\n"
            "[fsdp] rank 1 failed with exit code 1; the other ranks were ended.\n");
}

TEST(Launch, PrintsAnErrorOfAllRanksOnce) {
  const RunResult result = run_ranks_to_end(3, [](World&) { throw Error("no such file: tokens.bin"); });
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output,
              ContainsRegex("^\\[fsdp\\] all 3 ranks: no such file: tokens.bin\n"
                            "\\[fsdp\\] rank [0-2] failed with exit code 1; the other ranks were ended.\n$"));
}

TEST(Launch, PrintsAnErrorAtOnceWhereOtherRanksGoOn) {
  const RunResult result = run_ranks_to_end(2, [](World& world) {
    if (world.rank() == 1) throw Error("no such file: tokens.bin");
    stay(world);
  });
  EXPECT_THAT(result.output, StartsWith("[fsdp rank 1/2] no such file: tokens.bin\n"));
}

// A launcher that cannot print is killed while a rank has an error for it.
TEST(Launch, LosesNoErrorWhenItIsKilled) {
  const RunResult result = run_process([] {
    const pid_t launcher = fork();
    if (launcher == 0) {
      _exit(launch({.ranks = 2}, [](World& world) {
        if (world.rank() == 0) stay(world);
        kill(getppid(), SIGSTOP);
        throw Error("no such file: tokens.bin");
      }));
    }
    std::this_thread::sleep_for(3s);
    kill(launcher, SIGKILL);
    waitpid(launcher, nullptr, 0);
    return 0;
  });
  EXPECT_EQ(result.output, "[fsdp rank 1/2] no such file: tokens.bin\n");
}

TEST(Launch, ShowsNoTerminalWhatAMessageCarries) {
  RunResult result = run_ranks_to_end(2, [](World& world) {
    if (world.rank() == 1) throw Error("no such file: \x1b]0;title\x07\x1b[2J\xff.txt\nIs it there?");
    world.barrier();
  });
  EXPECT_THAT(result.output, Not(AnyOf(HasSubstr("\x1b"), HasSubstr("\x07"), HasSubstr("\xff"))));
  EXPECT_THAT(result.output, HasSubstr("[fsdp rank 1/2] no such file: \\x1b]0;title\\x07\\x1b[2J\\xff.txt\n"
                                       "Is it there?\n"));
}

TEST(Launch, TakesATimeoutOfAnyLength) {
  for (const char* backend : {"shm", "gloo"}) {
    testing::run_rank_processes(2, [](World& world) { world.state()->new_group()->barrier(); },
                                {.backend = backend, .timeout = std::chrono::milliseconds::max()});
  }
}

TEST(Launch, ReturnsTheExitCodeOfTheRankThatFailed) {
  RunResult result = run_ranks_to_end(3, [](World& world) {
    if (world.rank() == 2) std::exit(7);
    stay(world);
  });
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(result.output, HasSubstr("[fsdp] rank 2 failed with exit code 7; the other ranks were ended."));
}

TEST(Launch, EndsTheJobWhenARankIsKilled) {
  RunResult result = run_ranks_to_end(2, [](World& world) {
    if (world.rank() == 1) raise(SIGKILL);
    stay(world);
  });
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  EXPECT_THAT(result.output, HasSubstr("[fsdp] rank 1 was killed by signal 9 (Killed); the other ranks were ended.\n"));
}

TEST(Launch, FindsAStoppedRankByTheTimeout) {
  RunResult result = run_ranks_to_end(2,
                                      [](World& world) {
                                        world.barrier();
                                        if (world.rank() == 1) raise(SIGSTOP);
                                        world.barrier();
                                      },
                                      {.timeout = 3s});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.output,
            "[fsdp rank 0/2] barrier: rank 1 did not answer within 3000 ms (stopped, stuck or busy?)\n"
            "[fsdp] rank 0 failed with exit code 1; the other ranks were ended.\n");
}

TEST(Launch, KillsRanksThatDoNotWantToEnd) {
  RunResult result = run_ranks_to_end(2, [](World& world) {
    if (world.rank() == 1) std::exit(3);
    std::signal(SIGTERM, SIG_IGN);
    stay(world);
  });
  EXPECT_EQ(result.exit_code, 3);
}

TEST(Launch, EndsAllRanksOnInterrupt) {
  RunResult result = run_ranks_to_end(2, [](World& world) {
    world.barrier();
    if (world.rank() == 0) kill(getppid(), SIGINT);
    stay(world);
  });
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.output, HasSubstr("[fsdp] interrupted; all 2 ranks ended.\n"));
  EXPECT_THAT(result.output, Not(HasSubstr("killed by signal")));
}

// As a terminal does it: the ranks get the signal too, and the first to die is no failure.
TEST(Launch, EndsAllRanksOnInterruptOfTheWholeGroup) {
  RunResult result = run_process([] {
    setpgid(0, 0);
    return launch({.ranks = 2}, [](World& world) {
      world.barrier();
      if (world.rank() == 1) kill(0, SIGINT);
      stay(world);
    });
  });
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.output, HasSubstr("[fsdp] interrupted; all 2 ranks ended.\n"));
}

// Ranks that handle SIGTERM, of which rank 0 makes `ask` ask for it, and which then take `saving` to end.
void save_when_asked(World& world, const std::function<void()>& ask, std::chrono::milliseconds saving) {
  static volatile std::sig_atomic_t asked = 0;
  std::signal(SIGTERM, [](int) { asked = 1; });
  world.barrier();
  if (world.rank() == 0) ask();
  while (!asked) std::this_thread::sleep_for(10ms);
  std::this_thread::sleep_for(saving);
  std::cout << "saved" << std::endl;
}

TEST(Launch, WaitsForRanksThatHandleTermination) {
  RunResult result = run_ranks_to_end(2, [](World& world) {
    save_when_asked(
        world, [] { kill(getppid(), SIGTERM); }, 300ms);
  });
  EXPECT_EQ(result.exit_code, 143);
  EXPECT_THAT(result.output, AllOf(HasSubstr("[rank 0] saved"), HasSubstr("[rank 1] saved")));
}

// A scheduler signals the whole group, and the launcher once more.
TEST(Launch, TakesSignalsThatComeTogetherForOne) {
  RunResult result = run_ranks_to_end(2, [](World& world) {
    const auto ask = [] {
      for (int number : {SIGTERM, SIGINT, SIGHUP}) kill(getppid(), number);
      std::this_thread::sleep_for(50ms);
      kill(getppid(), SIGTERM);
    };
    save_when_asked(world, ask, 300ms);
  });
  EXPECT_THAT(result.output, AllOf(HasSubstr("[rank 0] saved"), HasSubstr("[rank 1] saved"),
                                   HasSubstr("[fsdp] interrupted; all 2 ranks ended.\n")));
}

TEST(Launch, KillsRanksThatSaveWhenAskedAgainLater) {
  RunResult result = run_ranks_to_end(2, [](World& world) {
    const auto ask = [] {
      for (int i = 0; i < 30; ++i, std::this_thread::sleep_for(200ms)) kill(getppid(), SIGTERM);
    };
    save_when_asked(world, ask, 10s);
  });
  EXPECT_EQ(result.exit_code, 143);
  EXPECT_THAT(result.output, Not(HasSubstr("saved")));
}

TEST(Launch, StartsAgainAsOftenAsAllowed) {
  testing::ScratchDirectory scratch;
  std::string marker = scratch.path() / "starts";
  auto fail_twice = [marker] {
    return launch({.ranks = 2, .max_restarts = 2}, [&](World& world) {
      world.barrier();
      if (world.rank() == 1) {
        std::ofstream(marker, std::ios::app) << "x";
        if (std::filesystem::file_size(marker) < 3) std::exit(5);
      }
      world.barrier();
    });
  };
  RunResult result = run_process(fail_twice);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("Starting all 2 again (restart 2 of 2)."));
}

TEST(Launch, GoesOnWithTheRanksThatAreAskedFor) {
  RunResult result = run_process([] {
    LaunchOptions options{.ranks = 3};
    options.restart_with = [](const JobFailure& failure) { return failure.ranks - failure.lost; };
    return launch(options, [](World& world) {
      world.barrier();
      if (world.restarts() == 0 && world.rank() == 1) raise(SIGKILL);
      world.barrier();
      std::cout << "rank " << world.rank() << " of " << world.size() << std::endl;
    });
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("Starting 2 ranks in place of 3 again (restart 1)."),
                                   HasSubstr("rank 1 of 2\n"), Not(HasSubstr("of 3\n"))));
}

TEST(Launch, PassesOnWhatRanksHandle) {
  RunResult result = run_ranks_to_end(2, [](World& world) {
    static volatile std::sig_atomic_t noticed = 0;
    if (world.rank() == 1) std::signal(SIGUSR1, [](int) { noticed = 1; });
    world.barrier();
    if (world.rank() == 1) kill(getppid(), SIGUSR1);
    while (world.rank() == 1 && !noticed) std::this_thread::sleep_for(1ms);
    world.barrier();
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST(Launch, RunsSeveralJobsInARow) {
  RunResult result = run_process([] {
    int sum = 0;
    for (int i = 0; i < 3; ++i)
      sum += launch({.ranks = 2}, [&](World& world) {
        world.barrier();
        if (i == 1 && world.rank() == 0) std::exit(9);
        if (i == 1) stay(world);
      });
    return sum;
  });
  EXPECT_EQ(result.exit_code, 9) << result.output;
}

std::vector<pid_t> processes_in(const std::string& output) {
  std::vector<pid_t> processes;
  const std::string word = "process ";
  for (size_t at = output.find(word); at != std::string::npos; at = output.find(word, at + 1))
    processes.push_back(std::stoi(output.substr(at + word.size())));
  return processes;
}

TEST(Launch, LeavesNothingBehind) {
  testing::ScratchDirectory scratch;
  for (int signal : {0, SIGKILL, SIGSTOP, SIGINT}) {
    RunResult result = run_process(
        [signal] {
          return launch({.ranks = 3, .timeout = 1s}, [&](World& world) {
            std::cout << "process " << getpid() << std::endl;
            world.barrier();
            if (world.rank() == 1 && signal) kill(signal == SIGINT ? getppid() : getpid(), signal);
            if (signal) world.barrier();
            if (signal == SIGINT) stay(world);
          });
        },
        {"TMPDIR=" + scratch.path().string()});
    EXPECT_EQ(result.exit_code == 0, signal == 0) << result.output;
    std::vector<pid_t> processes = processes_in(result.output);
    EXPECT_EQ(processes.size(), 3u);
    for (pid_t process : processes) EXPECT_NE(kill(process, 0), 0) << process << " after signal " << signal;
    EXPECT_TRUE(std::filesystem::is_empty(scratch.path())) << "after signal " << signal;
  }
}

TEST(Launch, TheRanksDieWithTheirSupervisor) {
  testing::ScratchDirectory scratch;
  RunResult result = run_process(
      [] {
        return launch({.ranks = 2}, [](World& world) {
          std::cout << "process " << getpid() << std::endl;
          world.barrier();
          std::this_thread::sleep_for(300ms);
          if (world.rank() == 0) kill(getppid(), SIGKILL);
          stay(world);
        });
      },
      {"TMPDIR=" + scratch.path().string()});
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path())) << "nobody is left to remove it";
}

// The addresses, in the kernel's notation, at which this process listens.
std::vector<std::string> listening_addresses() {
  std::vector<std::string> addresses;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::string number, local, remote, state, skip, inode;
      fields >> number >> local >> remote >> state >> skip >> skip >> skip >> skip >> skip >> inode;
      if (state != "0A") continue;
      for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        if (std::filesystem::read_symlink(entry, gone) == "socket:[" + inode + "]") addresses.push_back(local);
      }
    }
  }
  return addresses;
}

TEST(Launch, ListensOnLoopbackAlone) {
  testing::run_rank_processes(2, [](World& world) {
    auto group = world.split(0);
    std::vector<std::string> addresses = listening_addresses();
    for (const std::string& address : addresses)
      EXPECT_TRUE(address.starts_with("0100007F:") || address.starts_with("00000000000000000000000001000000:"))
          << address;
    world.barrier();
  });
}

}  // namespace
}  // namespace fsdp
