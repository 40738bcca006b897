// A run whose folder somebody removes, or moves away, while it trains.
#include <gmock/gmock.h>

#include <fcntl.h>
#include <stdio.h>

#include <filesystem>

#include "apps/fsdp-train/train_job.h"
#include "apps/fsdp-train/train_program.h"

namespace {

using testing::HasSubstr;
using testing::Not;
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
  EXPECT_THAT(ending.output, HasSubstr("the run folder '" + run_ +
                                       "' was removed or moved: its settings and its whole record are there"));
  EXPECT_THAT(losses_of(run_), SizeIs(kSteps));
  const auto starts = events_of(run_, "run_start");
  EXPECT_THAT(starts, SizeIs(1));
  for (const char* file : {"config.json", "config.toml", "step-400/manifest.json"}) {
    EXPECT_TRUE(fs::exists(run_ + "/" + file)) << file;
  }
  EXPECT_FALSE(fs::is_empty(run_ + "/tensorboard"));
  EXPECT_FALSE(fs::exists(run_ + "/lock"));
}

// With the checkpoints in it; the record goes on in the copy.
TEST_F(TrainFolder, GoesOnInACopyThatIsPutInItsPlace) {
  constexpr int kSteps = 400;
  Job job(arguments(kSteps), run_, 5);
  fs::copy(run_, folder_ / "copy", fs::copy_options::recursive);
  ASSERT_EQ(renameat2(AT_FDCWD, run_.c_str(), AT_FDCWD, (folder_ / "copy").c_str(), RENAME_EXCHANGE), 0);
  const Ending ending = job.end();
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(losses_of(run_), SizeIs(kSteps));
  EXPECT_THAT(tiny("run", "--ranks 2 --steps 401 --resume auto").output, Not(HasSubstr(".before-1")));
  EXPECT_THAT(losses_of(run_), SizeIs(kSteps + 1));
}

TEST_F(TrainFolder, KeepsARecordThatSomebodyChangedBesideItsOwn) {
  constexpr int kSteps = 400;
  Job job(arguments(kSteps), run_, 5);
  fs::rename(folder_.write("changed", "{}\n"), run_ + "/metrics.jsonl");
  const Ending ending = job.end();
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(losses_of(run_), SizeIs(kSteps));
  EXPECT_EQ(read_bytes(run_ + "/metrics.jsonl.changed-1"), "{}\n");
}

// As a run leaves it that begins anew, and is killed before it has begun its record.
TEST_F(TrainFolder, IsARunsWhereItsRecordWasSetAside) {
  ASSERT_EQ(tiny("run", "--ranks 1 --steps 2 --save-every 10").code, 0);
  fs::remove_all(run_ + "/step-2");
  fs::rename(run_ + "/metrics.jsonl", run_ + "/metrics.jsonl.before-1");
  const Ending ending = tiny("run", "--ranks 1 --steps 2");
  EXPECT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(losses_of(run_), SizeIs(2));
}

// `rm -r` takes one file after the other.
TEST_F(TrainFolder, IsMadeAgainWhileItIsBeingRemoved) {
  constexpr int kSteps = 400;
  Job job(arguments(kSteps), run_, 5);
  fs::create_directory(folder_ / "removed");
  for (const char* name : {"lock", "metrics.jsonl"})
    fs::rename(run_ + "/" + name, fs::path(folder_ / "removed") / name);
  const Ending ending = job.end();
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(losses_of(run_), SizeIs(kSteps));
}

TEST_F(TrainFolder, IsLeftToAModelThatIsThereByNow) {
  folder_.write("model/config.json", "a model's");
  Job job(arguments(1'000'000), run_, 5);
  ASSERT_EQ(renameat2(AT_FDCWD, run_.c_str(), AT_FDCWD, (folder_ / "model").c_str(), RENAME_EXCHANGE), 0);
  const Ending ending = job.end();
  EXPECT_EQ(ending.code, 1) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("holds a config.json and no metrics.jsonl"));
  EXPECT_EQ(read_bytes(run_ + "/config.json"), "a model's");
  EXPECT_EQ(std::distance(fs::directory_iterator(run_), {}), 1);
}

// Its files are not this run's to write over.
TEST_F(TrainFolder, IsLeftToTheRunThatHasItByNow) {
  const std::string config = folder_.write("other/config.json", "another run's");
  folder_.write("other/metrics.jsonl", "another run's");
  Job job(arguments(1'000'000), run_, 5);
  ASSERT_EQ(renameat2(AT_FDCWD, run_.c_str(), AT_FDCWD, (folder_ / "other").c_str(), RENAME_EXCHANGE), 0);
  const Ending ending = job.end();
  EXPECT_EQ(ending.code, 1) << ending.output;
  EXPECT_THAT(ending.output,
              HasSubstr("the run folder '" + run_ + "' was removed or moved, and is another run's by now"));
  EXPECT_EQ(read_bytes(run_ + "/config.json"), "another run's");
  EXPECT_EQ(read_bytes(run_ + "/metrics.jsonl"), "another run's");
  EXPECT_EQ(std::distance(fs::directory_iterator(run_), {}), 2);
}

}  // namespace
