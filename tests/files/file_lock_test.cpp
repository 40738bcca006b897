// One holder at a time, whatever lies at the lock's place and whatever the file system can do.
#include "files/file_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "support/message_of.h"
#include "support/no_locks.h"
#include "support/temporary_folder.h"

namespace fsdp::files {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::take_locks_away;

// The exit code of a child that runs `body`.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(FileLock, NamesItsHolderToWhoeverWantsItAndIsGoneAfterwards) {
  const TemporaryFolder folder;
  const std::string path = folder / "lock";
  std::optional<FileLock> lock(path);
  const std::string own = "process " + std::to_string(getpid()) + " on ";
  EXPECT_THAT(message_of<LockHeld>([&] { FileLock second(path); }), AllOf(HasSubstr(path), HasSubstr(own)));
  lock.reset();
  EXPECT_FALSE(fs::exists(path));
  FileLock again(path);
}

TEST(FileLock, IsFreeWhenItsHolderIsKilled) {
  const TemporaryFolder folder;
  const std::string path = folder / "lock";
  EXPECT_EQ(in_child([&] {
              new FileLock(path);  // a killed process runs no destructor
              return 0;
            }),
            0);
  EXPECT_TRUE(fs::exists(path));
  FileLock mine(path);
}

TEST(FileLock, LeavesTheLockAloneThatCameToBeAtItsPath) {
  const TemporaryFolder folder;
  const std::string path = folder / "lock";
  std::optional<FileLock> lost(path);
  EXPECT_TRUE(lost->is_in_place());
  fs::remove(path);
  EXPECT_FALSE(lost->is_in_place());
  const FileLock mine(path);
  lost.reset();
  EXPECT_TRUE(mine.is_in_place());
}

TEST(FileLock, FollowsNoLinkAndWritesToNoFileThroughOne) {
  const TemporaryFolder folder;
  const std::string precious = folder.write("precious", "text"), path = folder / "lock";
  fs::create_symlink(precious, path);
  EXPECT_THAT(message_of<Error>([&] { FileLock lock(path); }), HasSubstr("it is a symbolic link"));
  EXPECT_EQ(read_bytes(precious), "text");
}

TEST(FileLock, WhereNoFileCanBeMadeIsAnError) {
  const TemporaryFolder folder;
  for (const std::string& path : {folder / "missing/lock", std::string("/proc/fsdp-lock")})
    EXPECT_THAT(message_of<Error>([&] { FileLock lock(path); }), HasSubstr("the lock '" + path + "' cannot be taken"));
}

TEST(FileLock, WithoutLocksOfTheFileSystemTheFileItselfIsTheLock) {
  const TemporaryFolder folder;
  const std::string path = folder / "lock";
  enum : int { Good, NoFilter, TwoHolders, Message, NotFreed, Abandoned };
  const int code = in_child([&]() -> int {
    if (!take_locks_away()) return NoFilter;
    {
      FileLock lock(path);
      const std::string message = message_of<LockHeld>([&] { FileLock second(path); });
      if (message == "no error") return TwoHolders;
      if (message.find("remove that file") == std::string::npos) return Message;
    }
    if (message_of<Error>([&] { FileLock again(path); }) != "no error") return NotFreed;
    // One that a killed process left is not taken: nobody can tell whether it is alive.
    new FileLock(path);
    return message_of<LockHeld>([&] { FileLock second(path); }) == "no error" ? Abandoned : Good;
  });
  if (code == NoFilter) GTEST_SKIP() << "this system has no seccomp filters";
  EXPECT_EQ(code, Good);
}

// Each of eight processes adds one to a counter a hundred times, and nothing is lost.
TEST(FileLock, IsSeenToBeHeldWithoutBeingTaken) {
  TemporaryFolder folder;
  const fs::path path = folder / "lock";
  EXPECT_FALSE(is_lock_held(path));
  EXPECT_FALSE(fs::exists(path));
  {
    const FileLock lock(path);
    EXPECT_TRUE(is_lock_held(path));
    EXPECT_TRUE(is_lock_held(path));
  }
  folder.write("lock", "process 4711 on gpu3");  // left by one that was killed
  EXPECT_FALSE(is_lock_held(path));
  const FileLock taken(path);
  EXPECT_TRUE(is_lock_held(path));
}

TEST(FileLock, LetsOneProcessInAtATime) {
  const TemporaryFolder folder;
  const std::string path = folder / "lock", counter = folder.write("counter", "0");
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    for (int round = 0; round < 100; ++round) {
      const FileLock lock(path, std::chrono::minutes(1));
      const int value = std::stoi(read_bytes(counter));
      std::ofstream(counter) << value + 1;
    }
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(read_bytes(counter), "800");
}

}  // namespace
}  // namespace fsdp::files
