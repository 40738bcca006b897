// Grants of memory in a control group that has too little.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "fsdp/error.h"
#include "memory/memory_file.h"
#include "support/control_group.h"
#include "support/message_of.h"

namespace fsdp::memory {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMebibyte = size_t{1} << 20;

// Not every machine lets its users make control groups, and none of them is to be set up for that.
TEST(MemoryGrant, OfAControlGroupMakesAnErrorOfWhatWouldBeKilled) {
  const testing::ControlGroup group(256 * kMebibyte);  // a sanitizer takes some of it
  if (!group.is_there()) GTEST_SKIP() << "this process may not make a control group with a limit on memory";
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string message = "could not enter the group";
    if (group.enter()) {
      MemoryFile file = MemoryFile::create();
      file.grant(0, 16 * kMebibyte);
      message = fsdp::testing::message_of<Error>([&] { file.grant(16 * kMebibyte, 300 * kMebibyte); });
    }
    _exit(write(ends[1], message.data(), message.size()) > 0 ? 0 : 1);
  }
  close(ends[1]);
  char text[1024] = {};
  EXPECT_GT(read(ends[0], text, sizeof text - 1), 0);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_THAT(text, HasSubstr("expected 314572800 for shared memory"));
}

// Together they ask for more than the group has: some get their share, others an error, and nobody is killed.
TEST(MemoryGrant, OfAControlGroupIsNotPromisedToSeveralRanksAtATime) {
  constexpr int kRanks = 6;
  const testing::ControlGroup group(256 * kMebibyte);
  if (!group.is_there()) GTEST_SKIP() << "this process may not make a control group with a limit on memory";
  int start[2], asked[2], done[2];
  ASSERT_EQ(pipe(start), 0);
  ASSERT_EQ(pipe(asked), 0);
  ASSERT_EQ(pipe(done), 0);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(fork());
    if (ranks.back() != 0) continue;
    for (int end : {start[1], asked[0], done[1]}) close(end);
    bool entered = group.enter();
    char byte = 0;
    entered &= read(start[0], &byte, 1) == 0;  // until all are there
    MemoryFile file = MemoryFile::create();
    const std::string message = fsdp::testing::message_of<Error>([&] { file.grant(0, 100 * kMebibyte); });
    close(asked[1]);
    entered &= read(done[0], &byte, 1) == 0;  // nobody gives back what it got
    _exit(entered && (message == "no error" || message.find("for shared memory") != std::string::npos) ? 0 : 1);
  }
  for (int end : {start[1], asked[1]}) close(end);
  char byte = 0;
  EXPECT_EQ(read(asked[0], &byte, 1), 0);  // until each of them has what it asked for, or an error
  close(done[1]);
  for (int end : {start[0], asked[0], done[0]}) close(end);
  for (pid_t rank : ranks) {
    int status = 0;
    waitpid(rank, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

}  // namespace
}  // namespace fsdp::memory
