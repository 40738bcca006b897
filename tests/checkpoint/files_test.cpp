// A directory takes the place of another one, also where the file system cannot exchange names.
#include "checkpoint/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "support/scratch_directory.h"

namespace fs = std::filesystem;

namespace {

bool exchanges_names = true;          // of the file system
std::function<void()> before_rename;  // of one name

}  // namespace

// In place of the C library's.
extern "C" int renameat2(int from_directory, const char* from, int to_directory, const char* to,
                         unsigned int flags) noexcept {
  if (!exchanges_names && flags != 0) {
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(syscall(SYS_renameat2, from_directory, from, to_directory, to, flags));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  if (before_rename) before_rename();
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

namespace fsdp::checkpoint {
namespace {

class CommitDirectory : public ::testing::TestWithParam<bool> {
 protected:
  CommitDirectory() {
    exchanges_names = GetParam();
    make(target_, "old");
    make(partial_, "new");
  }
  ~CommitDirectory() override {
    exchanges_names = true;
    before_rename = nullptr;
  }

  static void make(const fs::path& directory, const std::string& text) {
    fs::create_directory(directory);
    for (const char* name : {"first", "second"}) std::ofstream(directory / name) << text;
  }
  // What both files say; nothing where one is missing or says something else.
  static std::string text_of(const fs::path& directory) {
    std::string first, second;
    std::ifstream(directory / "first") >> first;
    std::ifstream(directory / "second") >> second;
    return first == second ? first : "";
  }
  void expect_only_new() const {
    EXPECT_EQ(text_of(target_), "new");
    EXPECT_EQ(std::distance(fs::directory_iterator(scratch_.path()), {}), 1);
  }

  testing::ScratchDirectory scratch_;
  fs::path target_ = scratch_.path() / "step-3";
  fs::path partial_ = scratch_.path() / "step-3.partial";
  fs::path aside_ = scratch_.path() / "step-3.partial-replaced";
};

TEST_P(CommitDirectory, ReplacesAnOlderOne) {
  commit_directory(partial_, target_);
  expect_only_new();
}

TEST_P(CommitDirectory, TakesAPlaceThatIsFree) {
  fs::remove_all(target_);
  make(aside_, "of a process that died");
  commit_directory(partial_, target_);
  expect_only_new();
}

TEST_P(CommitDirectory, LeavesTheOldOneWholeUntilTheNewOneHasItsPlace) {
  before_rename = [&] { EXPECT_TRUE(text_of(target_) != "" || text_of(aside_) == "old"); };
  commit_directory(partial_, target_);
  expect_only_new();
}

INSTANTIATE_TEST_SUITE_P(WhereNames, CommitDirectory, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "CanBeExchanged" : "CannotBeExchanged"; });

}  // namespace
}  // namespace fsdp::checkpoint
