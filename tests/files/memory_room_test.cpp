// How much memory there is, by what the system says of it.
#include "files/memory_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include "files/control_groups.h"

namespace fsdp::files {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;

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

TEST(MemoryLimit, IsTheLeastThatAGroupSets) {
  System system(500);
  EXPECT_EQ(memory_limit(system.path()).bytes, std::numeric_limits<size_t>::max());
  system.version_2("/user/job");
  system.group("sys/fs/cgroup/user", std::to_string(200 * kMebibyte), 10 * kMebibyte);
  system.group("sys/fs/cgroup/user/job", "max", 10 * kMebibyte);
  EXPECT_EQ(memory_limit(system.path()).bytes, 200 * kMebibyte);
  EXPECT_THAT(memory_limit(system.path()).limit, EndsWith("sys/fs/cgroup/user/memory.max"));
}

TEST(ControlGroups, AreThoseOfTheirVersionAndController) {
  System system(500);
  EXPECT_THAT(control_groups(system.path(), GroupVersion::Two, "cpu"), IsEmpty());
  system.write("proc/self/cgroup", "4:cpu,cpuacct:/job/part\n0::/job\n");
  system.write("proc/self/mountinfo",
               "31 23 0:28 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
               "41 31 0:38 / /cg/unified rw,relatime - cgroup2 cgroup2 rw\n");
  const fs::path cpu = system.path() / "cg/cpu", unified = system.path() / "cg/unified";
  EXPECT_THAT(control_groups(system.path(), GroupVersion::One, "cpu"), ElementsAre(cpu, cpu / "job", cpu / "job/part"));
  EXPECT_THAT(control_groups(system.path(), GroupVersion::Two, "cpu"), ElementsAre(unified, unified / "job"));
  EXPECT_THAT(control_groups(system.path(), GroupVersion::One, "memory"), IsEmpty());
}

}  // namespace
}  // namespace fsdp::files
