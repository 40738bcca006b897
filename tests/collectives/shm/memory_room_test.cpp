// How much memory there is, by what the system says of it; and a grant in a control group that has too little.
#include "collectives/shm/memory_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "collectives/shm/memory_file.h"
#include "fsdp/error.h"
#include "support/message_of.h"

namespace fsdp::collectives::shm {
namespace {

namespace fs = std::filesystem;

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr size_t kMebibyte = size_t{1} << 20;

// The system's answers: a folder with proc and the control groups in it.
class System {
 public:
  explicit System(size_t available_mebibytes) {
    std::string pattern = (fs::temp_directory_path() / "fsdp-system-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
    write("proc/meminfo", "MemTotal:       99999999 kB\nMemFree:        1 kB\nMemAvailable:   " +
                              std::to_string(available_mebibytes << 10) + " kB\nBuffers:        5 kB\n");
  }
  ~System() { fs::remove_all(path_); }
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  const fs::path& path() const { return path_; }
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
  }
  void group(const std::string& folder, const std::string& limit, size_t used, size_t cache = 0) {
    write(folder + "/memory.max", limit + "\n");
    write(folder + "/memory.current", std::to_string(used) + "\n");
    write(folder + "/memory.stat", "anon 1\nactive_file 7\ninactive_file " + std::to_string(cache) + "\n");
  }
  void version_2(const std::string& own, const std::string& mounted = "/") {
    write("proc/self/cgroup", "0::" + own + "\n");
    write("proc/self/mountinfo",
          "30 23 0:28 / /sys rw,relatime - sysfs sysfs rw\n"
          "31 30 0:29 " +
              mounted + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }

 private:
  fs::path path_;
};

TEST(MemoryRoom, IsWhatTheMachineHasWhereNoGroupSetsALimit) {
  System system(500);
  EXPECT_EQ(memory_room(system.path()).bytes, 500 * kMebibyte);
  EXPECT_THAT(memory_room(system.path()).limit, EndsWith("/proc/meminfo"));
  system.version_2("/job");
  system.group("sys/fs/cgroup/job", "max", 300 * kMebibyte);
  EXPECT_EQ(memory_room(system.path()).bytes, 500 * kMebibyte);
}

TEST(MemoryRoom, IsTheLeastOfAllGroupsUpToTheRoot) {
  System system(500);
  system.version_2("/user/job");
  system.group("sys/fs/cgroup/user/job", std::to_string(100 * kMebibyte), 30 * kMebibyte);
  EXPECT_EQ(memory_room(system.path()).bytes, 70 * kMebibyte);
  EXPECT_THAT(memory_room(system.path()).limit, EndsWith("sys/fs/cgroup/user/job/memory.max"));
  system.group("sys/fs/cgroup/user", std::to_string(200 * kMebibyte), 190 * kMebibyte);
  EXPECT_EQ(memory_room(system.path()).bytes, 10 * kMebibyte);
  system.group("sys/fs/cgroup", std::to_string(300 * kMebibyte), 299 * kMebibyte);
  EXPECT_EQ(memory_room(system.path()).bytes, kMebibyte);
}

TEST(MemoryRoom, CountsACacheThatIsNotInUseAsFree) {
  System system(500);
  system.version_2("/job");
  system.group("sys/fs/cgroup/job", std::to_string(100 * kMebibyte), 100 * kMebibyte, 25 * kMebibyte);
  EXPECT_EQ(memory_room(system.path()).bytes, 25 * kMebibyte);
  system.group("sys/fs/cgroup/job", std::to_string(100 * kMebibyte), 10 * kMebibyte, 25 * kMebibyte);
  EXPECT_EQ(memory_room(system.path()).bytes, 100 * kMebibyte);
}

TEST(MemoryRoom, EndsWhereTheSystemWouldSlowTheProcessDown) {
  System system(500);
  system.version_2("/job");
  system.group("sys/fs/cgroup/job", std::to_string(100 * kMebibyte), 60 * kMebibyte);
  system.write("sys/fs/cgroup/job/memory.high", std::to_string(50 * kMebibyte));
  EXPECT_EQ(memory_room(system.path()).bytes, 0);
  EXPECT_THAT(memory_room(system.path()).limit, EndsWith("memory.high"));
}

TEST(MemoryRoom, IsFoundInAContainerThatSeesItsOwnGroupAlone) {
  System system(500);
  system.group("sys/fs/cgroup", std::to_string(100 * kMebibyte), 0);
  system.version_2("/docker/1234/job", "/docker/1234");
  system.group("sys/fs/cgroup/job", std::to_string(40 * kMebibyte), 0);
  EXPECT_EQ(memory_room(system.path()).bytes, 40 * kMebibyte);
  system.version_2("/docker/1234", "/docker/1234");
  EXPECT_EQ(memory_room(system.path()).bytes, 100 * kMebibyte);
  system.version_2("/../elsewhere");  // as a namespace shows a group that lies outside of it
  EXPECT_EQ(memory_room(system.path()).bytes, 100 * kMebibyte);
  system.version_2("/elsewhere", "/docker/1234");
  EXPECT_EQ(memory_room(system.path()).bytes, 100 * kMebibyte);
}

TEST(MemoryRoom, IsThatOfVersion1WhereItHasTheMemory) {
  System system(500);
  system.write("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/job\n0::/other\n");
  system.write("proc/self/mountinfo",
               "31 23 0:28 / /cg/cpu rw - cgroup cgroup rw,cpuset\n"
               "35 31 0:32 / /cg/memory rw,relatime - cgroup cgroup rw,cpu,memory\n"
               "41 31 0:38 / /cg/unified rw,relatime - cgroup2 cgroup2 rw\n");
  system.write("cg/memory/job/memory.limit_in_bytes", std::to_string(100 * kMebibyte));
  system.write("cg/memory/job/memory.usage_in_bytes", std::to_string(70 * kMebibyte));
  system.write("cg/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file " + std::to_string(10 * kMebibyte));
  system.write("cg/memory/memory.limit_in_bytes", "9223372036854771712");
  system.write("cg/memory/memory.usage_in_bytes", "0");
  EXPECT_EQ(memory_room(system.path()).bytes, 40 * kMebibyte);
}

TEST(MemoryRoom, IsNotLimitedByWhatCannotBeRead) {
  System system(500);
  for (const char* text : {"", "garbage", "0", "0:", "0::", "::", "4:memory", "-", " - ", "1 2 3 - cgroup2", "\n\n"}) {
    system.write("proc/self/cgroup", text);
    system.write("proc/self/mountinfo", text);
    EXPECT_EQ(memory_room(system.path()).bytes, 500 * kMebibyte) << text;
  }
  system.version_2("/job");
  system.group("sys/fs/cgroup/job", "-5", 0);
  EXPECT_EQ(memory_room(system.path()).bytes, 500 * kMebibyte);
  EXPECT_EQ(memory_room("/nowhere").bytes, std::numeric_limits<size_t>::max());
}

// A control group of this process's own, of version 1 or 2, which ends with it.
class Group {
 public:
  explicit Group(size_t bytes) {
    for (const auto& [mount, limit] :
         {std::pair{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, std::pair{"/sys/fs/cgroup", "memory.max"}}) {
      const fs::path folder = fs::path(mount) / ("fsdp-test-" + std::to_string(getpid()));
      std::error_code refused;
      if (!fs::create_directory(folder, refused)) continue;
      if (fs::exists(folder / limit) && write(folder / limit, bytes)) {
        path_ = folder;
        return;
      }
      fs::remove(folder, refused);
    }
  }
  ~Group() {
    std::error_code gone;
    if (is_there()) fs::remove(path_, gone);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  bool is_there() const { return !path_.empty(); }
  bool enter() const { return write(path_ / "cgroup.procs", getpid()); }

 private:
  static bool write(const fs::path& file, size_t number) {
    std::ofstream to(file);
    return static_cast<bool>(to << number << std::flush);
  }

  fs::path path_;
};

// Not every machine lets its users make control groups, and none of them is to be set up for that.
TEST(MemoryRoom, OfAControlGroupMakesAnErrorOfWhatWouldBeKilled) {
  const Group group(256 * kMebibyte);  // a sanitizer takes some of it
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
TEST(MemoryRoom, OfAControlGroupIsNotPromisedToSeveralRanksAtATime) {
  constexpr int kRanks = 6;
  const Group group(256 * kMebibyte);
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
}  // namespace fsdp::collectives::shm
