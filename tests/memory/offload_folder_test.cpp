#include "memory/offload_folder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <memory>
#include <thread>
#include <vector>

#include "fsdp/error.h"
#include "memory/memory_file.h"
#include "memory/pages.h"
#include "support/file_size_limit.h"
#include "support/message_of.h"
#include "support/required.h"
#include "support/small_disk.h"
#include "support/temporary_folder.h"

namespace fsdp::memory {
namespace {

namespace fs = std::filesystem;

using ::fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kPage = static_cast<int64_t>(kPageBytes);

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  return names;
}

int64_t bytes_on_disk(int descriptor) {
  struct stat status {};
  EXPECT_EQ(fstat(descriptor, &status), 0);
  return status.st_blocks * 512;
}

TEST(OffloadFolder, IsMadeAndItsFilesHaveNoNames) {
  const TemporaryFolder scratch;
  const fs::path path = scratch.path() / "run" / "offload";
  {
    const OffloadFolder folder(path, 3);
    const files::Descriptor file = folder.new_file(), other = folder.new_file();
    folder.reserve(file.number(), 0, 100 * kPageBytes);
    EXPECT_EQ(bytes_on_disk(file.number()), 100 * kPage);
    EXPECT_EQ(bytes_on_disk(other.number()), 0);
    EXPECT_THAT(names_in(path), ElementsAre("rank-3.lock"));
  }
  EXPECT_THAT(names_in(path), IsEmpty());
}

TEST(OffloadFolder, ServesEachRankOfOneJobAndNoSecondJob) {
  const TemporaryFolder scratch;
  const OffloadFolder first(scratch.path(), 0), second(scratch.path(), 1);
  EXPECT_THAT(message_of<Error>([&] { OffloadFolder(scratch.path(), 1); }),
              AllOf(HasSubstr("in use by process " + std::to_string(getpid())), HasSubstr("two jobs cannot share one"),
                    HasSubstr(scratch.path().string()), HasSubstr("Name another folder")));
}

TEST(OffloadFolder, ThatCannotBeMadeOrWrittenIsAnErrorThatSaysWhatToName) {
  const TemporaryFolder scratch;
  const std::string file = scratch.write("file", "x");
  for (const fs::path& path : {fs::path(file), fs::path(file) / "below", fs::path("/proc/fsdp-offload")}) {
    EXPECT_THAT(message_of<Error>([&] { OffloadFolder(path, 0); }),
                AllOf(HasSubstr("offload_directory: the folder '" + path.string() + "' cannot be made"),
                      HasSubstr("on a local disk")));
  }
  EXPECT_THAT(message_of<Error>([] { OffloadFolder("/proc", 0); }),
              AllOf(HasSubstr("offload_directory: the lock '/proc/rank-0.lock' cannot be taken"),
                    HasSubstr("Name a folder that this rank may write")));
}

TEST(OffloadFolder, TellsOfALimitOnFilesBeforeTheSystemSendsASignal) {
  const TemporaryFolder scratch;
  const OffloadFolder folder(scratch.path(), 0);
  const files::Descriptor file = folder.new_file();
  const testing::FileSizeLimit limit(16 * kPageBytes);
  folder.reserve(file.number(), 0, 16 * kPageBytes);
  EXPECT_THAT(message_of<Error>([&] { folder.reserve(file.number(), 16 * kPageBytes, 1); }),
              AllOf(HasSubstr("a limit of 65536 bytes"), HasSubstr("at least 65537"), HasSubstr("(ulimit -f)")));
}

// On a thread of its own, as the small disk is seen by it alone.
TEST(OffloadFolder, OnAFullDiskIsAnErrorThatTakesNothing) {
  const TemporaryFolder scratch;
  bool mounted = false;
  std::thread([&] {
    if (!(mounted = testing::mount_small_disk(scratch.path(), 64 * kPageBytes))) return;
    const auto folder = std::make_shared<const OffloadFolder>(scratch.path(), 0);
    MemoryFile file = MemoryFile::create(folder);
    file.grant(0, 16 * kPageBytes);
    EXPECT_THAT(message_of<Error>([&] { file.grant(16 * kPageBytes, 64 * kPageBytes); }),
                AllOf(HasSubstr("has no room for 262144 more bytes: No space left on device"), HasSubstr("are free"),
                      HasSubstr("name a folder on another disk")));
    EXPECT_EQ(bytes_on_disk(file.descriptor()), 16 * kPage);
    file.take_back(0, 16 * kPageBytes);
    EXPECT_EQ(bytes_on_disk(file.descriptor()), 0);
  }).join();
  if (!mounted) FSDP_SKIP_TEST("this process may not mount a small disk; run the tests as root");
}

}  // namespace
}  // namespace fsdp::memory
