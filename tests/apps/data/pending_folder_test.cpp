#include "data/pending_folder.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "files/durable_file.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace data {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::message_of;
using ::testing::HasSubstr;

TEST(PendingFolder, AppearsWhole) {
  TemporaryFolder folder;
  PendingFolder pending(folder / "out/");
  EXPECT_FALSE(fs::exists(folder / "out"));
  fsdp::files::write_durably(pending.path() / "a", "abc");
  pending.commit();
  EXPECT_EQ(read_bytes(folder / "out/a"), "abc");
  EXPECT_FALSE(fs::exists(pending.path()));
}

TEST(PendingFolder, TakesThePlaceOfAnEmptyFolder) {
  TemporaryFolder folder;
  fs::create_directory(folder / "out");
  PendingFolder pending(folder / "out");
  fsdp::files::write_durably(pending.path() / "a", "abc");
  pending.commit();
  EXPECT_EQ(read_bytes(folder / "out/a"), "abc");
}

TEST(PendingFolder, LeavesNothingWithoutCommit) {
  TemporaryFolder folder;
  {
    PendingFolder pending(folder / "deep/out");
    fsdp::files::write_durably(pending.path() / "a", "abc");
  }
  EXPECT_TRUE(fs::is_empty(folder / "deep"));
}

TEST(PendingFolder, OverwritesNothing) {
  TemporaryFolder folder;
  folder.write("out/a", "old");
  folder.write("file", "old");
  for (const char* target : {"out", "file"}) {
    EXPECT_THAT(message_of<fsdp::Error>([&] { PendingFolder pending(folder / target); }),
                HasSubstr("is there already, and nothing is overwritten"));
  }
  PendingFolder pending(folder / "late");
  folder.write("late/a", "of somebody else");
  EXPECT_THAT(
      message_of<fsdp::Error>([&] { pending.commit(); }),
      HasSubstr("late' cannot be put in place: another program has made it meanwhile, and nothing is overwritten. "
                "Remove it, or name another."));
  EXPECT_EQ(read_bytes(folder / "late/a"), "of somebody else");
}

TEST(PendingFolder, SaysThatItCannotBeMade) {
  TemporaryFolder folder;
  folder.write("file", "x");
  EXPECT_THAT(message_of<fsdp::Error>([&] { PendingFolder pending(folder / "file/out"); }),
              HasSubstr("cannot be made: Not a directory"));
}

TEST(PendingFolder, RemovesAndFollowsNothingThatItDidNotMake) {
  TemporaryFolder folder;
  const std::string first = (folder / "out") + ".partial-" + std::to_string(getpid()), second = first + "-2";
  folder.write("precious/a", "text");
  folder.write(fs::path(first).filename().string() + "/a", "of somebody else");
  fs::create_directory_symlink(folder / "precious", second);
  {
    PendingFolder pending(folder / "out");
    EXPECT_EQ(pending.path(), first + "-3");
    fsdp::files::write_durably(pending.path() / "a", "abc");
  }
  PendingFolder pending(folder / "out");
  fsdp::files::write_durably(pending.path() / "a", "abc");
  pending.commit();
  EXPECT_EQ(read_bytes(folder / "out/a"), "abc");
  EXPECT_EQ(read_bytes(first + "/a"), "of somebody else");
  EXPECT_EQ(read_bytes(folder / "precious/a"), "text");
  EXPECT_TRUE(fs::is_symlink(second));
}

TEST(PendingFolder, DoesNotTakeThePlaceOfALink) {
  TemporaryFolder folder;
  fs::create_directory(folder / "empty");
  fs::create_directory_symlink(folder / "empty", folder / "out");
  fs::create_symlink(folder / "nothing", folder / "dangling");
  for (const char* target : {"out", "dangling"}) {
    EXPECT_THAT(message_of<fsdp::Error>([&] { PendingFolder pending(folder / target); }),
                HasSubstr("is there already, and nothing is overwritten"));
  }
}

TEST(PendingTarget, IsOfPendingNamesOnly) {
  EXPECT_EQ(pending_target("out.partial-77"), "out");
  EXPECT_EQ(pending_target("out.partial-77-2"), "out");
  for (const char* name : {"out", "out.partial-", "out.partial-x", "out.partial-7x", "out.partial-7-",
                           "out.partial-7-x", "out.partial-7-2-3", ".partial-draft"}) {
    EXPECT_EQ(pending_target(name), "") << name;
  }
}

}  // namespace
}  // namespace data
