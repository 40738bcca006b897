// A file has its name only when it is whole, and nothing that lies in the way is followed or written over.
#include "files/durable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "fsdp/error.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace fsdp::files {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

std::string partial_of(const std::string& path) { return path + ".partial-" + std::to_string(getpid()); }

TEST(DurableFile, WritesPiecesOfAnySizeInTheirOrder) {
  const TemporaryFolder folder;
  std::string expected;
  DurableFile file(folder / "f");
  for (const size_t size : {size_t{1}, size_t{3} << 20, size_t{0}, size_t{1} << 20, size_t{7}, (size_t{1} << 20) - 1}) {
    const std::string piece(size, static_cast<char>('a' + expected.size() % 26));
    file.append(piece);
    expected += piece;
    EXPECT_EQ(file.bytes(), static_cast<int64_t>(expected.size()));
  }
  file.overwrite_beginning("HEAD");
  expected.replace(0, 4, "HEAD");
  file.close();
  EXPECT_EQ(read_bytes(folder / "f"), expected);
}

TEST(DurableFile, LeavesNothingUnlessItIsClosed) {
  const TemporaryFolder folder;
  { DurableFile(folder / "f").append("half"); }
  EXPECT_FALSE(fs::exists(folder / "f"));
}

TEST(DurableFile, RefusesWhatIsThereAlreadyAndLinks) {
  const TemporaryFolder folder;
  const std::string precious = folder.write("precious", "text");
  fs::create_symlink(precious, folder / "link");
  fs::create_symlink(folder / "nothing", folder / "dangling");
  for (const std::string name : {"precious", "link", "dangling"}) {
    EXPECT_THAT(message_of<Error>([&] { DurableFile file(folder / name); }),
                AllOf(HasSubstr("'" + (folder / name) + "' cannot be created"), HasSubstr("File exists")));
  }
  EXPECT_EQ(read_bytes(precious), "text");
  EXPECT_FALSE(fs::exists(folder / "nothing"));
}

// Exits with 0 where the write is an error and the signal is as it was.
void write_beyond_limit(const std::string& path) {
  std::signal(SIGXFSZ, SIG_DFL);
  const rlimit limit{.rlim_cur = 1000, .rlim_max = 1000};
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::string message = message_of<Error>([&] {
    DurableFile file(path);
    file.append(std::string(5000, 'a'));
    file.close();
  });
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  const bool is_told = message.find("File too large") != std::string::npos;
  std::_Exit(is_told && sigismember(&blocked, SIGXFSZ) == 0 ? 0 : 1);
}

// ulimit -f, whose signal ends a process.
TEST(DurableFile, BeyondALimitOnTheSizeOfFilesIsAnError) {
  const TemporaryFolder folder;
  EXPECT_EXIT(write_beyond_limit(folder / "file"), ::testing::ExitedWithCode(0), "");
}

TEST(ReplacedFile, IsNotInPlaceOfADeviceAPipeOrAFolder) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_directory(folder / "folder");
  for (const std::string name : {"pipe", "folder"}) {
    EXPECT_THAT(message_of<Error>([&] { write_durably(folder / name, "bytes"); }),
                HasSubstr(name + "' is not a regular file, and is not replaced."));
  }
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
}

TEST(DurableFile, BeginsItsMessagesAsItIsTold) {
  EXPECT_THAT(message_of<Error>([] { DurableFile file("/proc/nothing/f", "token file 'f'"); }),
              HasSubstr("token file 'f' cannot be created: No such file or directory"));
}

TEST(ReplacedFile, TakesThePlaceOfTheOlderOneWhenItIsCommitted) {
  const TemporaryFolder folder;
  const std::string path = folder.write("f", "old");
  {
    ReplacedFile replaced(path);
    replaced.file().append("half of the new");
    EXPECT_EQ(read_bytes(path), "old");
  }
  EXPECT_EQ(read_bytes(path), "old");
  write_durably(path, "new");
  EXPECT_EQ(read_bytes(path), "new");
  EXPECT_FALSE(fs::exists(partial_of(path)));
}

TEST(ReplacedFile, IsKnownByItsNameWhereAKilledProcessLeftIt) {
  EXPECT_EQ(target_of_unfinished("sample.txt.partial-123"), "sample.txt");
  for (const char* name : {"sample.txt", "sample.txt.partial-", "step-1.partial-Ab12cD", "step-1.partial-replaced"}) {
    EXPECT_EQ(target_of_unfinished(name), "") << name;
  }
}

TEST(ReplacedFile, WritesThroughNoLinkThatLiesAtItsTemporaryName) {
  const TemporaryFolder folder;
  const std::string precious = folder.write("precious", "text"), path = folder / "f";
  fs::create_symlink(precious, partial_of(path));
  write_durably(path, "new");
  EXPECT_EQ(read_bytes(precious), "text");
  EXPECT_EQ(read_bytes(path), "new");
}

TEST(ReplacedFile, ReplacesALinkAndNotWhatItLeadsTo) {
  const TemporaryFolder folder;
  const std::string precious = folder.write("precious", "text"), path = folder / "f";
  fs::create_symlink(precious, path);
  write_durably(path, "new");
  EXPECT_EQ(read_bytes(precious), "text");
  EXPECT_EQ(read_bytes(path), "new");
  EXPECT_FALSE(fs::is_symlink(path));
}

}  // namespace
}  // namespace fsdp::files
