// A directory takes the place of an older checkpoint, also where the file system cannot exchange names, and of nothing
// else.
#include "checkpoint/partial_directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>

#include "checkpoint/manifest.h"
#include "fsdp/error.h"
#include "support/message_of.h"
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

using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kFirst = shard_file_name(0, 2), kSecond = shard_file_name(1, 2);

class Replacing : public ::testing::TestWithParam<bool> {
 protected:
  Replacing() {
    exchanges_names = GetParam();
    make(target_, "old");
  }
  ~Replacing() override {
    exchanges_names = true;
    before_rename = nullptr;
  }

  static void make(const fs::path& directory, const std::string& text) {
    fs::create_directory(directory);
    for (const std::string& name : {kFirst, kSecond}) std::ofstream(directory / name) << text;
    write_manifest(directory, {.shards = 2, .parameters = {}, .notes = {}, .files = {}});
  }
  // The text of both files; empty where one is missing or they differ.
  static std::string text_of(const fs::path& directory) {
    std::string first, second;
    std::ifstream(directory / kFirst) >> first;
    std::ifstream(directory / kSecond) >> second;
    return first == second ? first : "";
  }
  std::string message_of_saving() const {
    return message_of<Error>([&] { PartialDirectory partial(target_); });
  }
  void save_new() {
    PartialDirectory partial(target_);
    make(partial.path(), "new");
    partial.commit();
  }
  void expect_only(const std::string& text) const {
    EXPECT_EQ(text_of(target_), text);
    EXPECT_EQ(std::distance(fs::directory_iterator(scratch_.path()), {}), 1);
  }

  testing::ScratchDirectory scratch_;
  fs::path target_ = scratch_.path() / "step-3";
  fs::path leftover_ = scratch_.path() / "step-3.partial-Ab12cD";
  fs::path aside_ = scratch_.path() / "step-3.partial-replaced";
};

TEST_P(Replacing, TakesThePlaceOfAnOlderCheckpoint) {
  save_new();
  expect_only("new");
}

TEST_P(Replacing, TakesAPlaceThatIsFree) {
  fs::remove_all(target_);
  save_new();
  expect_only("new");
}

TEST_P(Replacing, TidiesAwayWhatAProcessLeftThatDied) {
  make(leftover_, "half");
  fs::remove(leftover_ / kManifestName);
  make(aside_, "older");
  std::ofstream(scratch_.path() / "step-3.partial.lock") << "process 1 on nowhere";
  save_new();
  expect_only("new");
}

TEST_P(Replacing, PutsTheOldOneBackThatADyingProcessHadMovedAside) {
  fs::rename(target_, aside_);
  { PartialDirectory partial(target_); }
  expect_only("old");
}

TEST_P(Replacing, LeavesTheOldOneWholeUntilTheNewOneHasItsPlace) {
  before_rename = [&] { EXPECT_TRUE(text_of(target_) != "" || text_of(aside_) == "old"); };
  save_new();
  expect_only("new");
}

TEST_P(Replacing, LeavesNothingWhenItIsNotCommitted) {
  {
    PartialDirectory partial(target_);
    make(partial.path(), "new");
  }
  expect_only("old");
}

TEST_P(Replacing, TakesThePlaceOfADamagedCheckpointAndOfAnEmptyDirectory) {
  std::ofstream(target_ / kManifestName, std::ios::app) << "{";
  save_new();
  expect_only("new");
  fs::remove_all(target_);
  fs::create_directory(target_);
  save_new();
  expect_only("new");
}

TEST_P(Replacing, RefusesADirectoryOfSources) {
  fs::remove_all(target_);
  fs::create_directories(target_ / "src");
  std::ofstream(target_ / "src" / "main.cpp") << "int main() {}";
  EXPECT_THAT(message_of_saving(),
              AllOf(HasSubstr(target_.string()), HasSubstr("found 'src' in it, which is not a checkpoint's file")));
  EXPECT_TRUE(fs::exists(target_ / "src" / "main.cpp"));
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch_.path()), {}), 1);
}

TEST_P(Replacing, RefusesACheckpointThatHoldsMoreThanItsFiles) {
  std::ofstream(target_ / "thesis.tex") << "much work";
  EXPECT_THAT(message_of_saving(), HasSubstr("found 'thesis.tex' in it"));
  EXPECT_EQ(text_of(target_), "old");
}

TEST_P(Replacing, RefusesAManifestOfSomethingElse) {
  fs::remove_all(target_);
  fs::create_directory(target_);
  std::ofstream(target_ / kManifestName) << R"({"name": "a web page"})";
  EXPECT_THAT(message_of_saving(), HasSubstr("without the manifest of a checkpoint"));
  fs::remove(target_ / kManifestName);
  std::ofstream(target_ / kFirst) << "of somebody";
  EXPECT_THAT(message_of_saving(), HasSubstr("without the manifest of a checkpoint"));
  EXPECT_TRUE(fs::exists(target_ / kFirst));
}

TEST_P(Replacing, RefusesFilesAndLinks) {
  const fs::path elsewhere = scratch_.path() / "elsewhere";
  make(elsewhere, "precious");
  fs::remove_all(target_);
  fs::create_directory_symlink(elsewhere, target_);
  EXPECT_THAT(message_of_saving(), HasSubstr("expected a directory"));
  fs::remove(target_);
  std::ofstream(target_) << "a file";
  EXPECT_THAT(message_of_saving(), HasSubstr("expected a directory"));
  EXPECT_EQ(text_of(elsewhere), "precious");
  EXPECT_TRUE(fs::is_regular_file(target_));
}

TEST_P(Replacing, LeavesWhatIsNotOursUnderNamesLikeItsOwn) {
  fs::create_directory(leftover_);
  std::ofstream(leftover_ / "main.cpp") << "int main() {}";
  const fs::path link = scratch_.path() / "step-3.partial-link00", precious = scratch_.path() / "precious";
  make(precious, "precious");
  fs::create_directory_symlink(precious, link);
  save_new();
  EXPECT_EQ(text_of(target_), "new");
  EXPECT_TRUE(fs::exists(leftover_ / "main.cpp"));
  EXPECT_EQ(text_of(precious), "precious");
}

TEST_P(Replacing, MovesNothingOntoWhatIsNotOurs) {
  fs::create_directory(aside_);
  std::ofstream(aside_ / "main.cpp") << "int main() {}";
  const std::string message = message_of<Error>([&] { save_new(); });
  if (!GetParam()) EXPECT_THAT(message, AllOf(HasSubstr(aside_.string()), HasSubstr("found 'main.cpp' in it")));
  EXPECT_EQ(text_of(target_), GetParam() ? "new" : "old");
  EXPECT_TRUE(fs::exists(aside_ / "main.cpp"));
}

TEST_P(Replacing, IsDoneByOneProcessAtATimeAndTheOtherIsTold) {
  std::optional<PartialDirectory> partial(target_);
  make(partial->path(), "new");
  EXPECT_THAT(message_of_saving(), AllOf(HasSubstr(target_.string()), HasSubstr("is saving a checkpoint there"),
                                         HasSubstr("process " + std::to_string(getpid()))));
  EXPECT_EQ(text_of(partial->path()), "new");
  partial->commit();
  partial.reset();
  expect_only("new");
}

INSTANTIATE_TEST_SUITE_P(WhereNames, Replacing, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "CanBeExchanged" : "CannotBeExchanged"; });

}  // namespace
}  // namespace fsdp::checkpoint
