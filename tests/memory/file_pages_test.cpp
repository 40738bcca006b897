// What is put away is in no memory of this process, and not lost; what is read ahead comes from the disk by itself.
#include "memory/file_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "memory/pages.h"
#include "support/resident_bytes.h"
#include "support/temporary_folder.h"

namespace fsdp::memory {
namespace {

using ::fsdp::testing::resident_bytes;

constexpr size_t kPages = 2048, kBytes = kPages * kPageBytes;
constexpr size_t kWindow = 16 * kPageBytes;  // that the system maps together

class FilePagesTest : public ::testing::Test {
 protected:
  // Of `bytes` from `begin` on.
  FilePages pages(size_t begin, size_t bytes) const {
    return {*file_.on_disk(), mapping_, /*mapped_from=*/0, base() + begin, bytes};
  }
  char* base() const { return mapping_->base(); }

  // Pages that the system has in memory, for whomever.
  size_t cached_pages() const {
    std::vector<unsigned char> states(kPages);
    EXPECT_EQ(mincore(base(), kBytes, states.data()), 0);
    return std::count_if(states.begin(), states.end(), [](unsigned char state) { return (state & 1) != 0; });
  }
  // The system forgets them, as it does when memory is short.
  void forget() const {
    ASSERT_EQ(fdatasync(file_.descriptor()), 0);
    ASSERT_EQ(posix_fadvise(file_.descriptor(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }

  TemporaryFolder scratch_;
  MemoryFile file_ = [this] {
    MemoryFile file = MemoryFile::create(std::make_shared<const OffloadFolder>(scratch_.path(), 0));
    file.grant(0, kBytes);
    return file;
  }();
  std::shared_ptr<const Mapping> mapping_ = std::make_shared<const Mapping>(file_, kBytes, Access::Write);
};

TEST_F(FilePagesTest, PutAwayTakeNoMemoryOfTheProcessAndKeepTheirBytes) {
  std::memset(base(), 'x', kBytes);
  EXPECT_EQ(resident_bytes(base(), kBytes), kBytes);
  pages(kBytes / 2, kBytes / 2).put_away();
  EXPECT_LE(resident_bytes(base(), kBytes), kBytes / 2);
  EXPECT_GE(resident_bytes(base(), kBytes), kBytes / 2 - kWindow);
  pages(0, kBytes / 2).put_away();
  EXPECT_EQ(resident_bytes(base(), kBytes), 0u);
  forget();
  EXPECT_TRUE(std::all_of(base(), base() + kBytes, [](char byte) { return byte == 'x'; }));
}

// A shard begins where it begins: its neighbours' bytes lie in the same pages. The system may put a huge page away as a
// whole.
TEST_F(FilePagesTest, BeginAndEndWithinPages) {
  std::memset(base(), 'x', kBytes);
  pages(5 * kPageBytes + 256, 512).put_away();
  EXPECT_LE(resident_bytes(base(), kBytes), kBytes - kPageBytes);
  std::memset(base(), 'y', kBytes);
  pages(7 * kPageBytes - 1, 2).put_away();
  EXPECT_LE(resident_bytes(base(), kBytes), kBytes - 2 * kPageBytes);
  EXPECT_TRUE(std::all_of(base(), base() + kBytes, [](char byte) { return byte == 'y'; }));
}

// Reading a byte maps its neighbours in memory as well.
TEST_F(FilePagesTest, GoWithWhatTheSystemMapsAroundThem) {
  std::memset(base(), 'x', kBytes);
  pages(0, kBytes).put_away();
  for (size_t begin = kWindow + 3 * kPageBytes; begin < kBytes - kWindow; begin += 4 * kWindow) {
    EXPECT_EQ(base()[begin], 'x');
    pages(begin, 2 * kPageBytes).put_away();
  }
  EXPECT_EQ(resident_bytes(base(), kBytes), 0u);
}

TEST_F(FilePagesTest, ReadAheadAllComeFromTheDisk) {
  std::memset(base(), 'x', kBytes);
  pages(0, kBytes).put_away();
  forget();
  if (cached_pages() > 0) GTEST_SKIP() << "the temporary folder lies in memory";
  pages(0, kBytes).read_ahead();
  EXPECT_EQ(resident_bytes(base(), kBytes), 0u);  // of this process: nothing was touched
  const auto patience_ends = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (cached_pages() < kPages && std::chrono::steady_clock::now() < patience_ends)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(cached_pages(), kPages);
}

}  // namespace
}  // namespace fsdp::memory
