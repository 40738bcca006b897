#include "data/mapped_file.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace data {
namespace {

using fsdp::testing::message_of;
using ::testing::HasSubstr;

std::string mapping_error_of(const std::string& path) {
  return message_of<fsdp::Error>([&] { MappedFile file(path, "text"); });
}

TEST(MappedFile, HasTheFilesBytes) {
  TemporaryFolder folder;
  const std::string bytes("a\0b\xff", 4);
  const MappedFile file(folder.write("x", bytes), "text");
  EXPECT_EQ(file.bytes(), bytes);
  EXPECT_EQ(file.name(), "text '" + (folder / "x") + "'");
  file.check();
}

TEST(MappedFile, FollowsLinks) {
  TemporaryFolder folder;
  ASSERT_EQ(symlink(folder.write("x", "abc").c_str(), (folder / "link").c_str()), 0);
  EXPECT_EQ(MappedFile(folder / "link", "text").bytes(), "abc");
}

TEST(MappedFile, RefusesWhatCannotBeMapped) {
  TemporaryFolder folder;
  EXPECT_EQ(mapping_error_of(folder / "none"),
            "text '" + (folder / "none") + "' cannot be read: No such file or directory.");
  EXPECT_EQ(mapping_error_of(folder.write("empty", "")), "text '" + (folder / "empty") + "' is empty.");
  EXPECT_THAT(mapping_error_of(folder.path()), HasSubstr("is not a regular file"));
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(mapping_error_of(folder / "pipe"), HasSubstr("is not a regular file"));
  ASSERT_EQ(symlink("loop", (folder / "loop").c_str()), 0);
  EXPECT_THAT(mapping_error_of(folder / "loop"), HasSubstr("cannot be read: Too many levels of symbolic links"));
}

TEST(MappedFile, RefusesWhatMayNotBeRead) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  TemporaryFolder folder;
  ASSERT_EQ(chmod(folder.write("secret", "abc").c_str(), 0), 0);
  EXPECT_THAT(mapping_error_of(folder / "secret"), HasSubstr("cannot be read: Permission denied"));
}

TEST(MappedFile, NoticesThatTheFileHasShrunk) {
  TemporaryFolder folder;
  const std::string path = folder.write("x", std::string(10'000, 'x'));
  const MappedFile file(path, "text");
  ASSERT_EQ(truncate(path.c_str(), 20'000), 0);
  file.check();
  ASSERT_EQ(truncate(path.c_str(), 100), 0);
  EXPECT_EQ(message_of<fsdp::Error>([&] { file.check(); }),
            "text '" + path +
                "' has shrunk from 10000 to 100 bytes since it was opened. Leave the data as it is while it " +
                "is read, and start again.");
}

TEST(MappedFile, StaysWholeWithoutItsName) {
  TemporaryFolder folder;
  const std::string path = folder.write("x", "abcdef");
  const MappedFile file(path, "text");
  std::filesystem::remove(path);
  file.check();
  std::filesystem::rename(folder.write("y", "s"), path);
  file.check();
  EXPECT_EQ(file.bytes(), "abcdef");
}

}  // namespace
}  // namespace data
