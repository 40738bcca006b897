// How the processes of ranks end.
#include "world/rank_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "support/run_ranks.h"

namespace fsdp::world {
namespace {

// Any process of this user may follow it; says so by a byte.
int wait_for_ever(int ready) {
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  (void)!write(ready, "!", 1);
  for (;;) pause();
}

// A process that follows `first` as a debugger does: its parent hears of its death when the debugger has, and that
// takes until `second` is dead as well. Writes a byte when it follows, and exits with 0 when both have died so.
pid_t hold_back_death(pid_t first, pid_t second, int follows) {
  const pid_t debugger = fork();
  if (debugger != 0) return debugger;
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, second, 0));
  if (handle < 0 || ptrace(PTRACE_SEIZE, first, nullptr, nullptr) != 0) _exit(2);
  (void)!write(follows, "!", 1);
  pollfd death{handle, POLLIN, 0};
  constexpr int kHang = 30000;  // milliseconds
  const bool died = poll(&death, 1, kHang) == 1;
  waitpid(first, nullptr, 0);
  _exit(died ? 0 : 1);
}

pid_t process_of(const RankProcess& rank) {
  std::FILE* file = std::fopen(("/proc/self/fdinfo/" + std::to_string(rank.handle())).c_str(), "r");
  int pid = -1;
  for (char line[256]; std::fgets(line, sizeof line, file);) std::sscanf(line, "Pid: %d", &pid);
  std::fclose(file);
  return pid;
}

TEST(RankProcess, AllAreKilledBeforeTheFirstIsWaitedFor) {
  const auto result = testing::run_process([] {
    int ends[2];
    if (pipe(ends) != 0) return 3;
    char byte = 0;
    std::vector<std::unique_ptr<RankProcess>> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.push_back(std::make_unique<RankProcess>(
          rank, nullptr, [] {}, [&] { return wait_for_ever(ends[1]); }));
      if (read(ends[0], &byte, 1) != 1) return 4;
    }
    const pid_t debugger = hold_back_death(process_of(*ranks[0]), process_of(*ranks[1]), ends[1]);
    if (read(ends[0], &byte, 1) != 1) return 4;
    kill_all(ranks);
    int status = 0;
    waitpid(debugger, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 5;
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

}  // namespace
}  // namespace fsdp::world
