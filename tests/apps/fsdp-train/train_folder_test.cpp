// A run whose folder somebody removes, or moves away, while it trains.
#include <gmock/gmock.h>

#include <fcntl.h>
#include <stdio.h>

#include <filesystem>

#include "apps/fsdp-train/train_job.h"
#include "apps/fsdp-train/train_program.h"
#include "files/file_lock.h"

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;
namespace fs = std::filesystem;

class TrainFolder : public TrainProgram {
 protected:
  TrainFolder() : run_(folder_ / "run") {}

  std::string arguments(int steps) const { return tiny_arguments("run", "--ranks 2 --steps " + std::to_string(steps)); }

  const std::string run_;
};

TEST_F(TrainFolder, IsMadeAgainWithTheWholeRecord) {
  constexpr int kSteps = 400;
  Job job(arguments(kSteps), run_, 5);
  fs::rename(run_, folder_ / "moved");
  const Ending ending = job.end();
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("the run folder '" + run_ + "' was removed or moved: it is there again"));
  EXPECT_THAT(losses_of(run_), SizeIs(kSteps));
  const auto starts = events_of(run_, "run_start");
  EXPECT_THAT(starts, SizeIs(1));
  for (const char* file : {"config.json", "config.toml", "step-400/manifest.json"}) {
    EXPECT_TRUE(fs::exists(run_ + "/" + file)) << file;
  }
  EXPECT_FALSE(fs::is_empty(run_ + "/tensorboard"));
  EXPECT_FALSE(fs::exists(run_ + "/lock"));
}

// Its files are not this run's to write over.
TEST_F(TrainFolder, IsLeftToTheRunThatHasItByNow) {
  const std::string config = folder_.write("other/config.json", "another run's");
  const fsdp::files::FileLock lock(folder_ / "other/lock");
  Job job(arguments(1'000'000), run_, 5);
  ASSERT_EQ(renameat2(AT_FDCWD, run_.c_str(), AT_FDCWD, (folder_ / "other").c_str(), RENAME_EXCHANGE), 0);
  const Ending ending = job.end();
  EXPECT_EQ(ending.code, 1) << ending.output;
  EXPECT_THAT(ending.output,
              AllOf(HasSubstr("run folder '" + run_ + "' is in use by process "), HasSubstr("name another --run")));
  EXPECT_EQ(read_bytes(run_ + "/config.json"), "another run's");
  EXPECT_TRUE(fs::exists(run_ + "/lock"));
  EXPECT_FALSE(fs::exists(run_ + "/metrics.jsonl"));
}

}  // namespace
