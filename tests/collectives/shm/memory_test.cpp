// Shared memory and who has which part of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "collectives/shm/heap.h"
#include "collectives/shm/memory_node.h"
#include "collectives/shm/own_memory.h"
#include "fsdp/error.h"
#include "support/message_of.h"

namespace fsdp::collectives::shm {
namespace {

using ::fsdp::testing::message_of;
using ::testing::HasSubstr;

constexpr size_t kHugePageBytes = size_t{2} << 20;

int64_t pages_of(const MemoryFile& file) {
  struct stat status {};
  EXPECT_EQ(fstat(file.descriptor(), &status), 0);
  return status.st_blocks * 512 / static_cast<int64_t>(kPageBytes);
}

TEST(Heap, HandsOutRangesThatDoNotMeetAndJoinsWhatComesBack) {
  Heap heap(kPageBytes, 5 * kPageBytes);
  EXPECT_EQ(heap.take(1), kPageBytes);
  EXPECT_EQ(heap.take(kPageBytes + 1), 2 * kPageBytes);
  EXPECT_EQ(heap.take(kPageBytes), 4 * kPageBytes);
  EXPECT_EQ(heap.take(1), std::nullopt);
  EXPECT_EQ(heap.give_back(kPageBytes), kPageBytes);
  EXPECT_EQ(heap.take(2 * kPageBytes), std::nullopt);
  EXPECT_EQ(heap.give_back(4 * kPageBytes), kPageBytes);
  EXPECT_EQ(heap.give_back(2 * kPageBytes), 2 * kPageBytes);
  EXPECT_EQ(heap.take(4 * kPageBytes), kPageBytes);
}

TEST(Heap, StartsLongRangesAtHugePages) {
  Heap heap(kPageBytes, 8 * kHugePageBytes);
  EXPECT_EQ(heap.take(kHugePageBytes), kHugePageBytes);
  EXPECT_EQ(heap.take(kPageBytes), kPageBytes);
  EXPECT_EQ(heap.take(kHugePageBytes + 1), 2 * kHugePageBytes);
}

TEST(MemoryFile, IsTheSameMemoryForEveryoneWhoOpensIt) {
  MemoryFile made = MemoryFile::create(2 * kPageBytes);
  made.grant(0, 2 * kPageBytes);
  const Mapping ours(made, 2 * kPageBytes, Access::Write);
  const MemoryFile opened = MemoryFile::open(getpid(), made.descriptor(), 1);
  const Mapping theirs(opened, 2 * kPageBytes, Access::Read);
  std::strcpy(ours.base() + kPageBytes, "hello");
  EXPECT_STREQ(theirs.base() + kPageBytes, "hello");
}

TEST(MemoryFile, TakesMemoryThatIsGrantedUntilItIsTakenBack) {
  MemoryFile file = MemoryFile::create(1000 * kPageBytes);
  EXPECT_EQ(pages_of(file), 0);
  file.grant(0, 10 * kPageBytes);
  EXPECT_EQ(pages_of(file), 10);
  file.take_back(0, 4 * kPageBytes);
  EXPECT_EQ(pages_of(file), 6);
}

TEST(MemoryFile, ThatIsNotThereIsAnErrorThatSaysHowMuch) {
  MemoryFile file = MemoryFile::create(kPageBytes);
  EXPECT_THAT(message_of<Error>([&] { file.grant(0, size_t{1} << 60); }),
              HasSubstr("expected 1152921504606846976 for shared memory"));
}

TEST(MemoryFile, OfAProcessThatIsGoneIsAnErrorThatNamesTheRank) {
  EXPECT_THAT(message_of<Error>([] { MemoryFile::open(getpid(), 1 << 20, 3); }),
              HasSubstr("the memory of rank 3 (/proc/"));
}

// What the system would say of nodes with these processors.
class Nodes {
 public:
  explicit Nodes(const std::vector<std::string>& processors) {
    std::string pattern = (std::filesystem::temp_directory_path() / "fsdp-nodes-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
    std::filesystem::create_directory(path_ / "power");
    for (size_t node = 0; node < processors.size(); ++node) {
      const std::filesystem::path directory = path_ / ("node" + std::to_string(node));
      std::filesystem::create_directory(directory);
      std::ofstream(directory / "cpulist") << processors[node] << '\n';
    }
  }
  ~Nodes() { std::filesystem::remove_all(path_); }
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Keeps this thread on one processor.
class Stay {
 public:
  Stay() : processor_(sched_getcpu()) {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor_, &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  }
  ~Stay() { sched_setaffinity(0, sizeof before_, &before_); }
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;

  std::string processor() const { return std::to_string(processor_); }

 private:
  int processor_;
  cpu_set_t before_;
};

TEST(MemoryNode, IsTheOneThatHasAllProcessorsOfTheProcess) {
  const Stay stay;
  EXPECT_EQ(memory_node(Nodes({"900-901", "903," + stay.processor() + ",905-907"}).path()), 1);
  EXPECT_EQ(memory_node(Nodes({"", "900", "0-" + stay.processor()}).path()), 2);
}

TEST(MemoryNode, IsWhereTheThreadRunsIfNoneHasAllProcessors) {
  const Stay stay;
  unsigned processor = 0, node = 0;
  ASSERT_EQ(getcpu(&processor, &node), 0);
  EXPECT_EQ(memory_node(Nodes({"900", "901"}).path()), static_cast<int>(node));
  EXPECT_EQ(memory_node("/nowhere"), static_cast<int>(node));
}

TEST(OwnMemory, GivesPagesBackAndHandsOutZerosAgain) {
  OwnMemory memory(16 * kPageBytes);
  const int64_t before = pages_of(memory.file());
  const uint64_t offset = memory.allocate(8 * kPageBytes);
  EXPECT_EQ(pages_of(memory.file()), before + 8);
  std::memset(memory.base() + offset, 7, 8 * kPageBytes);
  memory.free(offset);
  EXPECT_EQ(pages_of(memory.file()), before);
  const uint64_t again = memory.allocate(16 * kPageBytes);
  for (size_t i = 0; i < 16 * kPageBytes; ++i) ASSERT_EQ(memory.base()[again + i], 0) << i;
  EXPECT_THAT(message_of<Error>([&] { memory.allocate(1); }), HasSubstr("found no 1 bytes in a row"));
}

}  // namespace
}  // namespace fsdp::collectives::shm
