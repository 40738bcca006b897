#include "run/newest_checkpoint.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "run/checkpoints.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

class NewestCheckpointTest : public ::testing::Test {
 protected:
  NewestCheckpointTest() {
    for (const char* step : {"step-2", "step-4", "step-6"}) {
      folder_.write(std::string(step) + "/manifest.json", "{\"format\": \"fsdp-checkpoint\", \"shards\": 1}");
      folder_.write(std::string(step) + "/shard-00001-of-00001.safetensors", "a header");
    }
  }

  // The name of the first that is not among `damaged`.
  std::string loaded(const std::set<std::string>& damaged) {
    told_.clear();
    const auto load = [&](const fs::path& checkpoint) {
      if (damaged.contains(checkpoint.filename())) throw fsdp::Error("a hash differs.");
    };
    return load_newest(newest_checkpoint(run_), load, [&](const std::string& text) { told_ += text; }).filename();
  }

  TemporaryFolder folder_;
  fs::path run_ = folder_.path();
  std::string told_;
};

TEST_F(NewestCheckpointTest, IsTakenWithoutAWordWhereItIsWhole) {
  EXPECT_EQ(loaded({}), "step-6");
  EXPECT_EQ(told_, "");
}

TEST_F(NewestCheckpointTest, IsPassedOverWhereItsFilesAreNotThere) {
  fs::remove(run_ / "step-6/manifest.json");
  EXPECT_EQ(loaded({}), "step-4");
  EXPECT_THAT(told_,
              AllOf(HasSubstr("step-6 cannot be loaded: manifest '"), HasSubstr("step-4 is taken in its place.\n")));
  folder_.write("step-6/manifest.json", "{");
  EXPECT_EQ(loaded({}), "step-4");
  EXPECT_THAT(told_, HasSubstr("is damaged: "));
}

TEST_F(NewestCheckpointTest, IsPassedOverWhereItCannotBeLoaded) {
  EXPECT_EQ(loaded({"step-6", "step-4"}), "step-2");
  EXPECT_EQ(told_, (run_ / "step-6").string() + " cannot be loaded: a hash differs.\n" + (run_ / "step-4").string() +
                       " cannot be loaded: a hash differs.\n" + (run_ / "step-2").string() +
                       " is taken in its place.\n");
}

TEST_F(NewestCheckpointTest, IsPassedOverWhereItMayNotBeRead) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  fs::permissions(run_ / "step-6", fs::perms::none);
  EXPECT_EQ(loaded({}), "step-4");
  EXPECT_THAT(told_, HasSubstr("Permission denied"));
  EXPECT_EQ(checkpoints_and_remains_of(run_).size(), 3u);  // --resume says so, too
  fs::permissions(run_ / "step-6", fs::perms::owner_all);
}

TEST_F(NewestCheckpointTest, IsAnErrorThatNamesAllWhereNoneIsWhole) {
  EXPECT_THAT(message_of<fsdp::Error>([&] {
                loaded({"step-2", "step-4", "step-6"});
              }),
              AllOf(HasSubstr("has no checkpoint that can be loaded.\n    "), HasSubstr("step-6 cannot be loaded: "),
                    HasSubstr("step-2 cannot be loaded: ")));
  for (const char* step : {"step-2", "step-4", "step-6"}) fs::remove(run_ / step / "manifest.json");
  EXPECT_THAT(message_of<fsdp::Error>([&] { newest_checkpoint(run_); }),
              HasSubstr("step-6 cannot be loaded: manifest"));
}

TEST_F(NewestCheckpointTest, OfOneThatIsNamedIsItsOwnError) {
  const auto load = [](const fs::path&) { throw fsdp::Error("a hash differs."); };
  EXPECT_EQ(message_of<fsdp::Error>([&] { load_newest({.newest_first = {run_ / "step-6"}}, load, {}); }),
            "a hash differs.");
}

}  // namespace
}  // namespace trainer
