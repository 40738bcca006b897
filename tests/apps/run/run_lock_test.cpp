#include "run/run_lock.h"

#include <fmt/format.h>
#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using fsdp::testing::message_of;
using testing::AllOf;
using testing::HasSubstr;

std::string message_of_lock(const std::string& run) {
  return message_of<fsdp::Error>([&] { RunLock lock(run); });
}

TEST(RunLock, IsHeldByOneAndNamesIt) {
  TemporaryFolder folder;
  const std::string run = folder / "deep/run";
  {
    const RunLock first(run);
    EXPECT_THAT(message_of_lock(run),
                AllOf(HasSubstr(fmt::format("is in use by process {}", getpid())), HasSubstr("or name another --run")));
    EXPECT_EQ(message_of_lock(folder / "other"), "no error");
  }
  EXPECT_EQ(message_of_lock(run), "no error");
}

TEST(RunLock, IsNotTakenThroughASymbolicLink) {
  TemporaryFolder folder;
  const std::string precious = folder.write("precious", "text");
  std::filesystem::create_directory(folder / "run");
  std::filesystem::create_symlink(precious, folder / "run/lock");
  EXPECT_THAT(message_of_lock(folder / "run"), AllOf(HasSubstr("cannot be written"), HasSubstr("symbolic link")));
  EXPECT_EQ(read_bytes(precious), "text");
}

TEST(RunLock, LeavesNothingBehind) {
  TemporaryFolder folder;
  { const RunLock lock(folder / "run"); }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "run"));
}

TEST(RunLock, IsTakenAgainWhereItsFolderWasRemoved) {
  TemporaryFolder folder;
  const std::string run = folder / "run";
  RunLock lock(run);
  lock.restore();
  std::filesystem::remove_all(run);
  lock.restore();
  EXPECT_THAT(message_of_lock(run), HasSubstr("is in use by process"));
  std::filesystem::remove_all(run);
  {
    const RunLock other(run);
    EXPECT_THAT(message_of<fsdp::files::LockHeld>([&] { lock.restore(); }), HasSubstr("is in use by process"));
  }
  lock.restore();
  EXPECT_TRUE(std::filesystem::exists(run + "/lock"));
}

TEST(RunLock, OfAFolderThatCannotBeMadeIsAnError) {
  TemporaryFolder folder;
  EXPECT_THAT(message_of_lock(folder.write("file", "bytes") + "/run"), HasSubstr("cannot be made"));
}

}  // namespace
}  // namespace trainer
