#include "run/checkpoints.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>

#include <fstream>
#include <limits>
#include <set>
#include <string>

#include "files/file_lock.h"
#include "run/checkpoint_folder.h"
#include "run/resume_state.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void make_checkpoint(const fs::path& folder) {
  fs::create_directories(folder);
  std::ofstream(folder / "manifest.json") << R"({"format":"fsdp-checkpoint"})";
  std::ofstream(folder / "shard-00001-of-00001.safetensors") << "bytes";
}

class Checkpoints : public ::testing::Test {
 protected:
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(run_)) names.insert(entry.path().filename().string());
    return names;
  }

  TemporaryFolder folder_;
  fs::path run_ = folder_.path();
};

TEST_F(Checkpoints, AreFoundNewestFirstByNumber) {
  for (const char* name : {"step-9", "step-100", "step-20"}) make_checkpoint(run_ / name);
  EXPECT_THAT(checkpoints_of(run_), ElementsAre(run_ / "step-100", run_ / "step-20", run_ / "step-9"));
}

TEST_F(Checkpoints, AreNoneOfWhatOnlyLooksLikeOne) {
  for (const char* name : {"step-5.partial", "step-", "step-x", "other", "step--1", "step-007", "step-+4", "step-1e3",
                           "step-99999999999999999999", "step-9007199254740993"}) {
    make_checkpoint(run_ / name);
  }
  fs::create_symlink("step-8", run_ / "step-8");  // a loop
  fs::create_directories(run_ / "step-7");        // without a manifest
  EXPECT_THAT(checkpoints_of(run_), IsEmpty());
  EXPECT_THAT(checkpoints_of(run_ / "missing"), IsEmpty());
  EXPECT_THAT(checkpoints_and_remains_of(run_), IsEmpty());
  std::ofstream(run_ / "step-7/shard-00001-of-00001.safetensors") << "bytes";
  make_checkpoint(run_ / "step-2");
  EXPECT_THAT(checkpoints_and_remains_of(run_), ElementsAre(run_ / "step-7", run_ / "step-2"));
}

TEST_F(Checkpoints, OfWhatIsNoFolderAreAnError) {
  std::ofstream(run_ / "file") << "bytes";
  EXPECT_THROW(checkpoints_of(run_ / "file"), fsdp::Error);
}

TEST_F(Checkpoints, TheNewestAreKeptAndNothingElseIsTouched) {
  for (const char* name : {"step-1", "step-2", "step-3"}) make_checkpoint(run_ / name);
  fs::create_directories(run_ / "step-0");
  std::ofstream(run_ / "metrics.jsonl") << "{}\n";
  EXPECT_THAT(remove_old_checkpoints(run_, 0).folders, IsEmpty());
  EXPECT_THAT(checkpoints_of(run_), ElementsAre(run_ / "step-3", run_ / "step-2", run_ / "step-1"));
  EXPECT_THAT(remove_old_checkpoints(run_, 2).folders, ElementsAre(run_ / "step-1"));
  EXPECT_THAT(checkpoints_of(run_), ElementsAre(run_ / "step-3", run_ / "step-2"));
  EXPECT_FALSE(fs::exists(run_ / "step-1"));
  EXPECT_TRUE(fs::exists(run_ / "step-0"));
  EXPECT_TRUE(fs::exists(run_ / "metrics.jsonl"));
}

TEST_F(Checkpoints, AreRemovedAtOnceAndLeftoversOfAKilledRemovalGo) {
  for (const char* name : {"step-1", "step-2", "step-1.partial-remove"}) make_checkpoint(run_ / name);
  EXPECT_THAT(remove_old_checkpoints(run_, 1).folders, ElementsAre(run_ / "step-1"));
  EXPECT_EQ(names(), (std::set<std::string>{"step-2"}));
}

TEST_F(Checkpoints, AreAllThatIsThereOnceTheFolderIsTidy) {
  for (const char* name : {"step-2", "step-2.partial-Ab12cD", "step-4.partial-remove", "best.partial-Ab12cD"}) {
    make_checkpoint(run_ / name);
  }
  fs::remove(run_ / "step-2.partial-Ab12cD/manifest.json");
  std::ofstream(run_ / "step-2.partial.lock") << "process 1 on nowhere";
  make_checkpoint(run_ / "step-2.partial-replaced");
  tidy_after_crash(run_);
  EXPECT_EQ(names(), (std::set<std::string>{"step-2"}));
}

TEST_F(Checkpoints, ThatWereMovedAsideGetTheirNamesBack) {
  for (const char* name : {"best.partial-replaced", "step-2.partial-replaced"}) make_checkpoint(run_ / name);
  tidy_after_crash(run_);
  EXPECT_EQ(names(), (std::set<std::string>{"best", "step-2"}));
}

TEST_F(Checkpoints, AreTidiedOfNothingElse) {
  for (const char* name : {"other.partial-Ab12cD", "step-2.partial-Ab12cDe", "step-2.partial-Ab12cD",
                           "step-x.partial-Ab12cD", "step-6.partial-Ab12cD"}) {
    make_checkpoint(run_ / name);
  }
  std::ofstream(run_ / "step-2.partial-Ab12cD/notes.txt") << "precious";
  fs::create_symlink(run_ / "other.partial-Ab12cD", run_ / "step-4.partial-Ab12cD");
  fs::create_symlink(run_ / "nowhere", run_ / "step-4.partial.lock");
  const fsdp::files::FileLock saving(run_ / "step-6.partial.lock");
  const std::set<std::string> before = names();
  tidy_after_crash(run_);
  EXPECT_EQ(names(), before);
  EXPECT_TRUE(is_checkpoint(run_ / "other.partial-Ab12cD"));
}

TEST_F(Checkpoints, OfAnAbandonedFutureAreSetAside) {
  for (const char* name : {"step-2", "step-4", "step-6"}) make_checkpoint(run_ / name);
  set_later_checkpoints_aside(run_, 3);
  EXPECT_THAT(checkpoints_of(run_), ElementsAre(run_ / "step-2"));
  EXPECT_TRUE(fs::exists(run_ / "step-6.set-aside-1/manifest.json"));
  make_checkpoint(run_ / "step-6");
  set_later_checkpoints_aside(run_, 3);
  EXPECT_THAT(checkpoints_of(run_), ElementsAre(run_ / "step-2"));
  for (const char* name : {"step-4.set-aside-1", "step-6.set-aside-1", "step-6.set-aside-2"}) {
    EXPECT_TRUE(is_checkpoint(run_ / name)) << name;
  }
}

TEST_F(Checkpoints, AreSetAsideBesideWhatHasTheirName) {
  make_checkpoint(run_ / "step-6");
  fs::create_symlink(run_ / "nowhere", run_ / "step-6.set-aside-1");
  std::ofstream(run_ / "step-6.set-aside-2") << "precious";
  set_later_checkpoints_aside(run_, 3);
  EXPECT_TRUE(is_checkpoint(run_ / "step-6.set-aside-3"));
  EXPECT_EQ(read_bytes(run_ / "step-6.set-aside-2"), "precious");
}

TEST_F(Checkpoints, KeepWhatIsNoneOfThem) {
  for (const char* name : {"step-1", "step-2", "step-3", "step-4", "elsewhere"}) make_checkpoint(run_ / name);
  fs::create_symlink(run_ / "elsewhere", run_ / "step-0");
  std::ofstream(run_ / "step-1/manifest.json") << R"({"name":"of another program"})";
  std::ofstream(run_ / "step-2/notes.txt") << "precious";
  fs::create_directories(run_ / "step-2/more");
  const RemovedCheckpoints removed = remove_old_checkpoints(run_, 1);
  EXPECT_THAT(removed.folders, ElementsAre(run_ / "step-3"));
  EXPECT_THAT(removed.problems,
              ElementsAre(AllOf(HasSubstr("step-2'"), HasSubstr("its folder stays"), HasSubstr("'notes.txt'"))));
  EXPECT_TRUE(fs::exists(run_ / "step-0/manifest.json"));
  EXPECT_TRUE(fs::exists(run_ / "step-1/shard-00001-of-00001.safetensors"));
  EXPECT_EQ(read_bytes(run_ / "step-2/notes.txt"), "precious");
  EXPECT_TRUE(fs::exists(run_ / "step-2/more"));
  EXPECT_FALSE(fs::exists(run_ / "step-2/shard-00001-of-00001.safetensors"));
  EXPECT_FALSE(fs::exists(run_ / "step-3"));
  EXPECT_THAT(remove_old_checkpoints(run_, 1).problems, IsEmpty());
}

TEST_F(Checkpoints, AreReplacedAndAllElseMakesWayForThem) {
  for (const char* name : {"step-1", "step-2", "step-3", "step-4"}) make_checkpoint(run_ / name);
  std::ofstream(run_ / "step-2/manifest.json") << "{\"form";
  std::ofstream(run_ / "step-3/notes.txt") << "precious";
  fs::remove(run_ / "step-4/manifest.json");
  fs::create_directories(run_ / "step-5");
  fs::create_symlink("step-1", run_ / "step-6");
  std::ofstream(run_ / "step-7") << "precious";
  for (const char* name : {"step-1", "step-5", "step-8"}) EXPECT_THAT(make_way_for(run_ / name), IsEmpty()) << name;
  for (const std::string name : {"step-2", "step-3", "step-4", "step-6", "step-7"}) {
    EXPECT_THAT(make_way_for(run_ / name), HasSubstr(name + ".set-aside-1'.")) << name;
    EXPECT_FALSE(fs::exists(fs::symlink_status(run_ / name))) << name;
  }
  EXPECT_TRUE(is_checkpoint(run_ / "step-1"));
  EXPECT_EQ(read_bytes(run_ / "step-3.set-aside-1/notes.txt"), "precious");
}

TEST(ResumeState, IsTheSameAfterItsNotes) {
  const ResumeState state{
      .loss_scale = 1024, .finite_steps = 17, .best_validation_loss = 1.0 / 3, .validations_since_best = 2};
  const ResumeState read = from_notes(to_notes(state));
  EXPECT_EQ(read.loss_scale, state.loss_scale);
  EXPECT_EQ(read.finite_steps, state.finite_steps);
  EXPECT_EQ(read.best_validation_loss, state.best_validation_loss);
  EXPECT_EQ(read.validations_since_best, state.validations_since_best);
}

TEST(ResumeState, OfARunWithoutAValidation) {
  EXPECT_EQ(from_notes(to_notes({})).best_validation_loss, std::numeric_limits<double>::infinity());
}

TEST(ResumeState, OfAnotherProgramsCheckpointIsTheBeginning) { EXPECT_EQ(from_notes({}).validations_since_best, 0); }

TEST(ResumeState, RefusesWhatIsNoNumber) {
  EXPECT_THROW(from_notes({{"finite_steps", "12 monkeys"}}), fsdp::Error);
  EXPECT_THROW(from_notes({{"loss_scale", ""}}), fsdp::Error);
}

TEST(ResumeState, RefusesNumbersThatNoRunHas) {
  for (const char* scale : {"-1", "nan", "inf", "1e300", "0x10"}) {
    EXPECT_THROW(from_notes({{"loss_scale", scale}}), fsdp::Error) << scale;
  }
  for (const char* count : {"-1", "1.5", "9007199254740993", "99999999999999999999"}) {
    EXPECT_THROW(from_notes({{"finite_steps", count}}), fsdp::Error) << count;
    EXPECT_THROW(from_notes({{"validations_since_best", count}}), fsdp::Error) << count;
  }
  for (const char* loss : {"-inf", "nan", "-3"}) {
    EXPECT_THROW(from_notes({{"best_validation_loss", loss}}), fsdp::Error) << loss;
  }
}

}  // namespace
}  // namespace trainer
