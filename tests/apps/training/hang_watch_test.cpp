// A rank that stands still: what is written, by whom, and how the job ends.
#include "training/hang_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "support/run_ranks.h"
#include "support/temporary_folder.h"
#include "training/thread_stacks.h"

using namespace std::chrono_literals;

namespace trainer {
namespace {

using fsdp::testing::run_ranks_to_end;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Forked ranks share the flag that the launching process made.
TEST(HangWatch, WritesTheStacksOfAllRanksAndEndsTheJob) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "fsdp-hang-watch-test";
  const std::string run = folder.string();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  SharedFlag hangs;
  const auto result = run_ranks_to_end(
      2,
      [&](fsdp::World& world) {
        RunPhase phase;
        const HangWatch watch(1s,
                              {.who = "rank " + std::to_string(world.rank()),
                               .file = run + "/hang-" + std::to_string(world.rank()) + ".txt",
                               .waits_for = [&] { return world.rank() == 0 ? "the gather of unit 3" : ""; }},
                              phase, hangs);
        phase.enter("forward and backward", 7, 2);
        while (world.rank() == 1) std::this_thread::sleep_for(1ms);
        world.barrier();
      },
      fsdp::testing::patient_options());
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr(": no progress for 1 s, in step 7, micro-batch 2: forward and backward"));
  EXPECT_THAT(result.output, HasSubstr("failed with exit code 1"));
  const std::string waits = read_bytes(run + "/hang-0.txt"), stands = read_bytes(run + "/hang-1.txt");
  EXPECT_THAT(waits, AllOf(HasSubstr("rank 0: "), HasSubstr(", where it waits for the gather of unit 3\n"),
                           HasSubstr("\nthread "), Not(HasSubstr("did not answer"))));
  EXPECT_THAT(stands, AllOf(HasSubstr("rank 1: "), HasSubstr("nanosleep"), Not(HasSubstr("waits for"))));
  std::filesystem::remove_all(folder);
}

TEST(HangWatch, LetsARankGoOnThatComesOn) {
  const auto result = run_ranks_to_end(1, [&](fsdp::World&) {
    SharedFlag hangs;
    RunPhase phase;
    const HangWatch watch(1s, {.who = "rank 0", .file = "/none", .waits_for = [] { return ""; }}, phase, hangs);
    for (int i = 0; i < 150; ++i) {
      std::this_thread::sleep_for(10ms);
      phase.goes_on();
    }
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST(ThreadStacks, HaveEveryThreadButTheOneThatAsks) {
  std::atomic<bool> ends{false};
  std::thread other([&] {
    while (!ends) std::this_thread::sleep_for(1ms);
  });
  const std::string stacks = stacks_of_all_threads();
  ends = true;
  other.join();
  size_t threads = 0, answers = 0;
  for (size_t at = stacks.find("thread "); at != std::string::npos; at = stacks.find("thread ", at + 1)) ++threads;
  for (size_t at = stacks.find("  #0 "); at != std::string::npos; at = stacks.find("  #0 ", at + 1)) ++answers;
  EXPECT_GE(threads, 1u);
  EXPECT_EQ(answers, threads) << stacks;
}

}  // namespace
}  // namespace trainer
