#include "memory/memory_file.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>

#include "fsdp/error.h"
#include "memory/pages.h"
#include "support/file_pages.h"
#include "support/file_size_limit.h"
#include "support/message_of.h"

namespace fsdp::memory {
namespace {

using ::fsdp::testing::FileSizeLimit;
using ::fsdp::testing::message_of;
using ::fsdp::testing::pages_of;
using ::testing::HasSubstr;

TEST(MemoryFile, IsTheSameMemoryForEveryoneWhoOpensIt) {
  MemoryFile made = MemoryFile::create();
  made.grant(0, 2 * kPageBytes);
  const Mapping ours(made, 2 * kPageBytes, Access::Write);
  const MemoryFile opened = MemoryFile::open(getpid(), made.descriptor(), 1);
  const Mapping theirs(opened, 2 * kPageBytes, Access::Read);
  std::strcpy(ours.base() + kPageBytes, "hello");
  EXPECT_STREQ(theirs.base() + kPageBytes, "hello");
}

TEST(MemoryFile, TakesMemoryThatIsGrantedUntilItIsTakenBack) {
  MemoryFile file = MemoryFile::create();
  EXPECT_EQ(pages_of(file), 0);
  file.grant(0, 10 * kPageBytes);
  EXPECT_EQ(pages_of(file), 10);
  file.take_back(0, 4 * kPageBytes);
  EXPECT_EQ(pages_of(file), 6);
}

TEST(MemoryFile, ThatIsNotThereIsAnErrorThatSaysHowMuch) {
  MemoryFile file = MemoryFile::create();
  EXPECT_THAT(message_of<Error>([&] { file.grant(0, size_t{1} << 60); }),
              HasSubstr("expected 1152921504606846976 for shared memory"));
}

TEST(MemoryFile, BeyondTheLimitOnFilesIsAnErrorAndNoSignal) {
  const FileSizeLimit limit(16 * kPageBytes);
  MemoryFile file = MemoryFile::create();
  file.grant(0, 16 * kPageBytes);
  EXPECT_THAT(message_of<Error>([&] { file.grant(16 * kPageBytes, 1); }),
              HasSubstr("found a limit of 65536 bytes on the size of files, expected at least 65537"));
  EXPECT_EQ(pages_of(file), 16);
}

TEST(MemoryFile, OfAProcessThatIsGoneIsAnErrorThatNamesTheRank) {
  EXPECT_THAT(message_of<Error>([] { MemoryFile::open(getpid(), 1 << 20, 3); }),
              HasSubstr("the memory of rank 3 (/proc/"));
}

}  // namespace
}  // namespace fsdp::memory
