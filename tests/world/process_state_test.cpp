// The state in which a parent leaves a process that launches: closed streams, signals that are ignored or blocked.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <string>
#include <thread>

#include "fsdp/world.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_process;
using testing::RunResult;

LaunchOptions two_ranks() {
  LaunchOptions options = testing::patient_options();
  options.ranks = 2;
  return options;
}

void train_for_ever(World& world) {
  for (;;) world.barrier();
}

bool is_ignored(int number) {
  struct sigaction action {};
  sigaction(number, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

bool is_blocked(int number) {
  sigset_t mask;
  sigprocmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, number) == 1;
}

void block(int number) {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, number);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
}

TEST(ProcessState, ClosedStreamsAreNoFilesOfTheRanks) {
  for (const char* backend : {"shm", "gloo"}) {
    for (int closed = 1; closed < 8; ++closed) {
      const RunResult result = run_process([backend, closed] {
        for (int stream : {0, 1, 2})
          if (closed >> stream & 1) close(stream);
        LaunchOptions options = two_ranks();
        options.backend = backend;
        options.max_restarts = 1;
        options.hot_restart = true;
        return launch(options, [](World& world) {
          std::cout << "printed" << std::endl;
          std::cerr << "printed" << std::endl;
          torch::Tensor sum = torch::ones({1000});
          world.all_reduce_(sum);
          if (world.restarts() == 0 && world.rank() == 1) raise(SIGKILL);
          world.barrier();
          if (!sum.eq(2).all().item<bool>()) throw Error("a wrong sum");
        });
      });
      EXPECT_EQ(result.exit_code, 0) << backend << ", closed: " << closed << "\n" << result.output;
    }
  }
}

TEST(ProcessState, ARankIsSeenToDieWhereChildrenAreIgnored) {
  const RunResult result = run_process([] {
    std::signal(SIGCHLD, SIG_IGN);
    LaunchOptions options = two_ranks();
    options.max_restarts = 1;
    const int code = launch(options, [](World& world) {
      if (!is_ignored(SIGCHLD)) throw Error("a rank has another disposition than the launcher");
      world.barrier();
      if (world.rank() == 1) raise(SIGKILL);
      train_for_ever(world);
    });
    return is_ignored(SIGCHLD) ? code : 99;
  });
  EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("rank 1 was killed by signal 9"), HasSubstr("restart 1 of 1")));
}

TEST(ProcessState, RanksThatAnotherWaitTakesHaveEnded) {
  for (const int code : {0, 3}) {
    const RunResult result = run_process([code] {
      std::signal(SIGCHLD, [](int) {
        while (waitpid(-1, nullptr, WNOHANG) > 0) continue;
      });
      return launch(two_ranks(), [code](World& world) {
        if (code != 0 && world.rank() == 1) std::exit(code);
        if (code != 0) train_for_ever(world);
      });
    });
    EXPECT_EQ(result.exit_code, code == 0 ? 0 : 1) << result.output;
    if (code != 0) EXPECT_THAT(result.output, HasSubstr("rank 1 ended, and its exit code is lost"));
  }
}

TEST(ProcessState, RanksHaveTheMaskOfTheLauncher) {
  const RunResult result = run_process([] {
    block(SIGTERM);
    const int code = launch(two_ranks(), [](World&) {
      if (!is_blocked(SIGTERM) || is_blocked(SIGINT)) throw Error("another mask");
    });
    return is_blocked(SIGTERM) && !is_blocked(SIGINT) ? code : 99;
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

// A handler that a blocked signal never reaches saves nothing, and is not waited for.
TEST(ProcessState, SignalsEndAJobThatBlocksThem) {
  for (const int number : {SIGTERM, SIGINT}) {
    const RunResult result = run_process([number] {
      for (const int blocked : {SIGTERM, SIGINT}) block(blocked);
      std::signal(SIGTERM, [](int) {});
      return launch(two_ranks(), [number](World& world) {
        world.barrier();
        if (world.rank() == 0) kill(getppid(), number);
        train_for_ever(world);
      });
    });
    EXPECT_EQ(result.exit_code, 128 + number) << result.output;
    EXPECT_THAT(result.output, HasSubstr("interrupted; all 2 ranks ended."));
  }
}

// As a program does that waits for signals in a thread of its own.
TEST(ProcessState, AHandlerIsWaitedForWhereAThreadLetsTheSignalIn) {
  const RunResult result = run_process([] {
    block(SIGTERM);
    return launch(two_ranks(), [](World& world) {
      static volatile std::sig_atomic_t asked = 0;
      std::signal(SIGTERM, [](int) { asked = 1; });
      std::thread listener([] {
        sigset_t none;
        sigemptyset(&none);
        pthread_sigmask(SIG_SETMASK, &none, nullptr);
        while (!asked) std::this_thread::sleep_for(1ms);
      });
      world.barrier();
      if (world.rank() == 0) kill(getppid(), SIGTERM);
      listener.join();
      std::this_thread::sleep_for(4s);  // longer than ranks without a handler have
      std::cout << "saved" << std::endl;
    });
  });
  EXPECT_EQ(result.exit_code, 143);
  EXPECT_THAT(result.output, AllOf(HasSubstr("[rank 0] saved"), HasSubstr("[rank 1] saved")));
}

// As ranks are for a moment after each fork: a notice then ends no job whose process handles it.
TEST(ProcessState, ANoticeReachesRanksThatBlockIt) {
  const RunResult result = run_process([] {
    static volatile std::sig_atomic_t noticed = 0;
    std::signal(SIGUSR2, [](int) { noticed = 1; });
    return launch(two_ranks(), [](World& world) {
      block(SIGUSR2);
      world.barrier();
      if (world.rank() == 0) kill(getppid(), SIGUSR2);
      sigset_t pending;
      do sigpending(&pending);
      while (sigismember(&pending, SIGUSR2) == 0);
      sigset_t notice;
      sigemptyset(&notice);
      sigaddset(&notice, SIGUSR2);
      sigprocmask(SIG_UNBLOCK, &notice, nullptr);
      if (!noticed) throw Error("no notice");
    });
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST(ProcessState, ARankThatExitsIsNamed) {
  for (const char* backend : {"shm", "gloo"}) {
    const RunResult result = run_process([backend] {
      LaunchOptions options = two_ranks();
      options.backend = backend;
      return launch(options, [](World& world) {
        world.barrier();
        if (world.rank() == 1) std::exit(0);
        world.barrier();
      });
    });
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.output, HasSubstr("[fsdp] rank 1 called exit(0) before its function returned"));
  }
}

TEST(ProcessState, RanksThatAllExitHaveSucceeded) {
  const RunResult result = run_process([] {
    return launch(two_ranks(), [](World& world) {
      world.barrier();
      std::exit(0);
    });
  });
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, "");
}

TEST(ProcessState, RanksReadNothingAndLeaveAtexitAlone) {
  const RunResult result = run_process([] {
    std::atexit([] { std::cout << "at exit" << std::endl; });
    return launch(two_ranks(), [](World&) {
      char byte = 0;
      if (read(STDIN_FILENO, &byte, 1) != 0) throw Error("something to read");
    });
  });
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, "");
}

TEST(ProcessState, MoreRanksThanTheMachineTakesAreRefusedAtOnce) {
  const auto too_many = [](int ranks) { return launch({.ranks = ranks}, [](World&) {}); };
  const RunResult files = run_process([&] {
    const rlimit limit{256, 256};
    setrlimit(RLIMIT_NOFILE, &limit);
    return too_many(100);
  });
  EXPECT_EQ(files.exit_code, 2);
  EXPECT_EQ(files.output,
            "[fsdp] launch: 100 ranks need 300 open files here, and the limit is 256. Use fewer ranks, or raise it "
            "(ulimit -n).\n");
  for (const int ranks : {100'000, 2'000'000'000}) {
    const RunResult result = run_process([&] { return too_many(ranks); });
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.output,
                AllOf(HasSubstr("[fsdp] launch: " + std::to_string(ranks) + " ranks "), HasSubstr("Use fewer ranks")));
  }
}

}  // namespace
}  // namespace fsdp
