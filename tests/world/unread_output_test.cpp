// A job whose output nobody reads, or reads slowly.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <torch/torch.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "support/run_ranks.h"

namespace fsdp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_process;
using testing::RunResult;
using namespace std::chrono_literals;

enum class Kind { Pipe, Socket };

// This process's standard output is one that somebody has open and does not read. Returns the reading end.
int leave_output_unread(Kind kind = Kind::Pipe) {
  int ends[2];
  const int made =
      kind == Kind::Pipe ? pipe2(ends, O_CLOEXEC) : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
  if (made != 0 || dup2(ends[1], STDOUT_FILENO) < 0) throw std::runtime_error("no pipe");
  close(ends[1]);
  return ends[0];
}

// Returns when not even the launcher has taken anything for long.
void fill_output() {
  fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
  const std::string line(999, 'x');
  pollfd ready{STDOUT_FILENO, POLLOUT, 0};
  while (poll(&ready, 1, 500) == 1) (void)!write(STDOUT_FILENO, (line + "\n").data(), line.size() + 1);
}

class UnreadKind : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, UnreadKind, ::testing::Values(Kind::Pipe, Kind::Socket));

TEST_P(UnreadKind, OfOutputKeepsNoSignalFromTheLauncher) {
  const RunResult result = run_process([] {
    leave_output_unread(GetParam());
    return launch({.ranks = 2}, [](World& world) {
      if (world.rank() == 1) fill_output();
      world.barrier();
      if (world.rank() == 0) kill(getppid(), SIGTERM);
      std::this_thread::sleep_for(60s);
    });
  });
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_THAT(result.output, HasSubstr("[fsdp] interrupted; all 2 ranks ended."));
}

TEST(UnreadOutput, DoesNotKeepADeathFromTheLauncher) {
  const RunResult result = run_process([] {
    leave_output_unread();
    return launch({.ranks = 2}, [](World& world) {
      if (world.rank() == 1) fill_output();
      world.barrier();
      if (world.rank() == 0) std::exit(7);
      std::this_thread::sleep_for(60s);
    });
  });
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(result.output, HasSubstr("[fsdp] rank 0 failed with exit code 7; the other ranks were ended."));
}

TEST(UnreadOutput, OfAnEndedJobIsGivenUpAtASignal) {
  const RunResult result = run_process([] {
    leave_output_unread();
    const pid_t launcher = getpid();
    const std::string later = "setsid sh -c 'sleep 2; kill -TERM " + std::to_string(launcher) + "' &";
    if (std::system(later.c_str()) != 0) return 1;
    return launch({.ranks = 2}, [](World& world) {
      if (world.rank() == 1) fill_output();
    });
  });
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
}

TEST(UnreadOutput, OfASlowReaderIsComplete) {
  constexpr int kLines = 400;
  const RunResult result = run_process([] {
    FILE* reader = popen("sleep 1; cat >&2", "w");
    dup2(fileno(reader), STDOUT_FILENO);
    const int code = launch({.ranks = 2}, [](World& world) {
      for (int i = 0; i < kLines; ++i)
        std::cout << std::string(1000, 'x') << " line " << i << " of " << world.rank() << ".\n";
    });
    close(STDOUT_FILENO);
    pclose(reader);
    return code;
  });
  EXPECT_EQ(result.exit_code, 0);
  for (int i = 0; i < kLines; ++i) {
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_THAT(result.output, HasSubstr("x line " + std::to_string(i) + " of " + std::to_string(rank) + ".\n"));
    }
  }
}

// The ranks that would handle it have ended: it is this process's, which goes on.
TEST(UnreadOutput, OfAnEndedJobLeavesASignalToTheHandlerOfItsProcess) {
  const RunResult result = run_process([] {
    static volatile std::sig_atomic_t noticed = 0;
    std::signal(SIGUSR2, [](int) { noticed = 1; });
    FILE* reader = popen(("sleep 1; kill -USR2 " + std::to_string(getpid()) + "; sleep 1; cat >&2").c_str(), "w");
    dup2(fileno(reader), STDOUT_FILENO);
    // More than a pipe holds, and less than two.
    const int code = launch({.ranks = 2}, [](World& world) {
      if (world.rank() == 0) std::cout << std::string(90000, 'x') << "the end\n";
    });
    close(STDOUT_FILENO);
    pclose(reader);
    return code == 0 && noticed ? 0 : 1;
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("the end\n"));
}

// Ranks that were asked to end are not ended by their output before they have saved.
TEST(UnreadOutput, OfAReaderThatIsGoneEndsNoRankThatSaves) {
  const RunResult result = run_process([] {
    close(leave_output_unread());
    return launch({.ranks = 2}, [&](World& world) {
      static volatile std::sig_atomic_t asked = 0;
      std::signal(SIGTERM, [](int) { asked = 1; });
      world.barrier();
      if (world.rank() == 0) kill(getppid(), SIGTERM);
      while (!asked) std::this_thread::sleep_for(10ms);
      for (int i = 0; i < 10; ++i, std::this_thread::sleep_for(20ms)) std::cout << "saves" << std::endl;
      std::cerr << "saved" << std::endl;
    });
  });
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_THAT(result.output, AllOf(HasSubstr("[rank 0] saved"), HasSubstr("[rank 1] saved")));
}

TEST(FullOutput, EndsNoJobAndIsReportedOnce) {
  const RunResult result = run_process([] {
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    dup2(full, STDOUT_FILENO);
    return launch({.ranks = 2}, [](World& world) {
      for (int i = 0; i < 3; ++i) std::cout << "lost" << std::endl;
      world.barrier();
      std::cerr << "goes on" << std::endl;
    });
  });
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(
      result.output,
      AllOf(HasSubstr("[rank 0] goes on\n"), HasSubstr("[rank 1] goes on\n"),
            HasSubstr("[fsdp] some output of the ranks was lost: cannot write to standard output: No space left "
                      "on device.\n")));
}

// The convention of nohup(1).
TEST(Launch, LeavesAnIgnoredHangUpIgnored) {
  const RunResult result = run_process([] {
    std::signal(SIGHUP, SIG_IGN);
    return launch({.ranks = 2}, [](World& world) {
      if (world.rank() == 0) kill(getppid(), SIGHUP);
      std::this_thread::sleep_for(300ms);
    });
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

}  // namespace
}  // namespace fsdp
