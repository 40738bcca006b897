// Folders of runs that were given none.
#include "run/fresh_folder.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "support/temporary_folder.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

class FreshFolder : public testing::Test {
 protected:
  FreshFolder() : before_(fs::current_path()) { fs::current_path(folder_.path()); }
  ~FreshFolder() override { fs::current_path(before_); }

  TemporaryFolder folder_;
  fs::path before_;
};

TEST_F(FreshFolder, HasTheNextNumber) {
  EXPECT_EQ(next_run_folder(), "run-1");
  EXPECT_FALSE(fs::exists("run-1"));
  EXPECT_EQ(make_run_folder(), "run-1");
  EXPECT_EQ(make_run_folder(), "run-2");
  EXPECT_TRUE(fs::is_directory("run-2"));
  fs::create_directory("run-41");
  for (const char* other : {"run-07", "run-", "run-99x", "run--3", "runs-77", "run-99999999999999999999"}) {
    fs::create_directory(other);
  }
  EXPECT_EQ(next_run_folder(), "run-42");
  folder_.write("run-42", "a file");
  EXPECT_EQ(make_run_folder(), "run-43");
}

TEST_F(FreshFolder, GoesWithARunThatCameToNothing) {
  for (const bool came_to_something : {true, false}) {
    const std::string run = make_run_folder();
    {
      EmptyFolderGuard guard;
      guard.watch(run);
      if (came_to_something) folder_.write(run + "/metrics.jsonl", "");
    }
    EXPECT_EQ(fs::exists(run), came_to_something);
  }
}

}  // namespace
}  // namespace trainer
