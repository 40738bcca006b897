// Shared memory and who has which part of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "collectives/shm/memory_node.h"
#include "collectives/shm/own_memory.h"
#include "collectives/shm/peer_memory.h"
#include "fsdp/error.h"
#include "support/file_pages.h"
#include "support/file_size_limit.h"
#include "support/message_of.h"

namespace fsdp::collectives::shm {
namespace {

using ::fsdp::testing::FileSizeLimit;
using ::fsdp::testing::message_of;
using ::fsdp::testing::pages_of;
using ::testing::HasSubstr;

TEST(OwnMemory, NeedsNoMoreOfTheLimitOnFilesThanWasAllocated) {
  const FileSizeLimit limit(size_t{4} << 20);
  OwnMemory memory;
  memory.allocate(size_t{3} << 20);
  EXPECT_THAT(message_of<Error>([&] { memory.allocate(size_t{5} << 20); }), HasSubstr("(ulimit -f)"));
}

// The folder in which a system with these processors describes its nodes.
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
  OwnMemory memory;
  const MemoryFile file = MemoryFile::open(getpid(), memory.first_segment().file, 0);
  const int64_t before = pages_of(file);
  const uint64_t address = memory.allocate(8 * kPageBytes);
  EXPECT_EQ(pages_of(file), before + 8);
  std::memset(memory.at(address), 7, 8 * kPageBytes);
  memory.free(address);
  EXPECT_EQ(pages_of(file), before);
  const uint64_t again = memory.allocate(16 * kPageBytes);
  EXPECT_EQ(again, address);
  for (size_t i = 0; i < 16 * kPageBytes; ++i) ASSERT_EQ(memory.at(again)[i], 0) << i;
}

TEST(OwnMemory, ReservesLittleMoreThanWasAllocatedHoweverItCame) {
  OwnMemory memory;
  EXPECT_LE(memory.reserved(), kHugePageBytes);
  size_t allocated = 0;
  for (size_t bytes : {kPageBytes, 3 * kHugePageBytes, kPageBytes, 40 * kHugePageBytes}) {
    memory.allocate(bytes);
    allocated += bytes;
    EXPECT_LE(memory.reserved(), 2 * kHugePageBytes + allocated * 5 / 4);
  }
  for (int i = 0; i < 2000; ++i) memory.allocate(16 * kPageBytes);
  allocated += size_t{2000} * 16 * kPageBytes;
  EXPECT_LE(memory.reserved(), 2 * kHugePageBytes + allocated * 5 / 4);
}

TEST(OwnMemory, IsReadByPeersInSegmentsThatWereMadeLater) {
  OwnMemory memory;
  PeerMemory seen(getpid(), 1, memory.first_segment());
  EXPECT_EQ(seen.control().segments[0].bytes, memory.reserved());
  std::vector<uint64_t> addresses;
  for (int i = 0; i < 5; ++i) {
    addresses.push_back(memory.allocate(3 * kHugePageBytes));
    memory.at(addresses.back())[2 * kHugePageBytes] = static_cast<char>('a' + i);
  }
  for (int i = 4; i >= 0; --i) EXPECT_EQ(seen.at(addresses[i])[2 * kHugePageBytes], 'a' + i);
  EXPECT_EQ(memory.address_of(memory.at(addresses[3]) + 5, 100), addresses[3] + 5);
  const char elsewhere = 0;
  EXPECT_THAT(message_of([&] { memory.address_of(&elsewhere, 1); }), HasSubstr("do not lie in memory"));
}

}  // namespace
}  // namespace fsdp::collectives::shm
