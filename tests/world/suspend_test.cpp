// A job that is stopped as a whole, for longer than it waits for anybody, and goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "support/run_ranks.h"
#include "world/state.h"

namespace fsdp {
namespace {

using ::testing::HasSubstr;
using testing::run_process;
using testing::RunResult;
using namespace std::chrono_literals;

constexpr auto kTimeout = 2s;
constexpr int kPauseSeconds = 4;

constexpr char kStopped[] = "the group was stopped";

// As Ctrl-Z and `fg` do it. Returns when the group goes on; says kStopped when its leader was seen to be stopped.
void suspend_own_group() {
  const std::string leader = std::to_string(getpgrp());
  const std::string command = "setsid sh -c 'kill -TSTP -" + leader + "; sleep " + std::to_string(kPauseSeconds) +
                              "; grep -q \"State:.T\" /proc/" + leader + "/status && echo " + kStopped +
                              "; kill -CONT -" + leader + "'";
  if (std::system(command.c_str()) != 0) throw std::runtime_error("the group cannot be stopped");
}

RunResult run_group(const LaunchOptions& options, const std::function<void(World&)>& body) {
  return run_process([&] {
    setpgid(0, 0);
    return launch(options, body);
  });
}

class Suspend : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Backends, Suspend, ::testing::Values("shm", "gloo"),
                         [](const auto& info) { return info.param; });

TEST_P(Suspend, AWaitGoesOn) {
  const RunResult result = run_group({.ranks = 2, .backend = GetParam(), .timeout = kTimeout}, [](World& world) {
    world.barrier();
    if (world.rank() == 1) suspend_own_group();
    world.barrier();
    std::cout << "went on" << std::endl;
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr(kStopped));
  EXPECT_THAT(result.output, HasSubstr("[rank 0] went on"));
}

TEST_P(Suspend, ARendezvousGoesOn) {
  const RunResult result = run_group({.ranks = 2, .backend = GetParam(), .timeout = kTimeout}, [](World& world) {
    if (world.rank() == 1) suspend_own_group();
    world.state()->new_group();
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

// Rank 1 fails, and rank 0 is asked to end: it has as long to save as if nobody had stopped it.
TEST(Suspend, ARankThatSavesGoesOn) {
  const RunResult result = run_group({.ranks = 2}, [](World& world) {
    static volatile std::sig_atomic_t asked = 0;
    std::signal(SIGTERM, [](int) { asked = 1; });
    world.barrier();
    if (world.rank() == 1) std::exit(3);
    while (!asked) std::this_thread::sleep_for(10ms);
    suspend_own_group();
    std::this_thread::sleep_for(300ms);
    std::cout << "saved" << std::endl;
  });
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.output, HasSubstr("[rank 0] saved"));
}

// A single rank that is stopped is missed all the same.
TEST_P(Suspend, AStoppedPeerIsFound) {
  const RunResult result = run_group({.ranks = 2, .backend = GetParam(), .timeout = kTimeout}, [](World& world) {
    world.barrier();
    if (world.rank() == 1) raise(SIGSTOP);
    world.barrier();
  });
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("barrier: rank 1 did not answer within 2000 ms (stopped, stuck or busy?)"));
}

}  // namespace
}  // namespace fsdp
