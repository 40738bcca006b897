// RUN/best: the checkpoint with the lowest validation loss.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <limits>

#include "apps/fsdp-train/train_job.h"
#include "apps/fsdp-train/train_program.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class TrainBest : public TrainProgram {
 protected:
  // The step and the loss of the lowest validation loss of a run.
  std::pair<int64_t, double> lowest(const std::string& run) const {
    std::pair<int64_t, double> best{0, std::numeric_limits<double>::infinity()};
    for (const json& record : metrics_of(folder_ / run)) {
      if (!record.contains("validation_loss") || record["validation_loss"] >= best.second) continue;
      best = {record["step"], record["validation_loss"]};
    }
    return best;
  }

  json manifest(const std::string& checkpoint) const {
    return json::parse(read_bytes(folder_ / (checkpoint + "/manifest.json")), nullptr, /*allow_exceptions=*/false);
  }

  void expect_best(const std::string& run) const {
    const auto [step, loss] = lowest(run);
    EXPECT_EQ(manifest(run + "/best")["step"], step);
    const json found = evaluated("--validation-windows 64 --checkpoint " + (folder_ / (run + "/best")));
    EXPECT_EQ(found["validation_loss"], loss);
  }

  // Rates so high that the loss falls at first and rises later.
  const std::string training_ = "--ranks 2 --lr 0.3 --schedule constant --validate-every 1 ",
                    job_ = training_ + "--steps 12 ";
};

TEST_F(TrainBest, IsTheLowestOfAll) {
  const Ending ending = tiny("run", job_ + "--save-every 1 --keep 1");
  ASSERT_EQ(ending.code, 0) << ending.output;
  const auto [step, loss] = lowest("run");
  EXPECT_GT(step, 1);
  EXPECT_LT(step, 12);
  expect_best("run");
  EXPECT_TRUE(fs::exists(folder_ / "run/step-12"));  // which --keep left, with the best
  EXPECT_THAT(ending.output, HasSubstr("best:       " + (folder_ / "run/best") + ", step " + std::to_string(step)));
}

TEST_F(TrainBest, ComesBackAfterAKill) {
  ASSERT_EQ(tiny("whole", job_ + "--save-every 2").code, 0);
  const std::string arguments = tiny_arguments("killed", job_ + "--save-every 2");
  Job job(arguments, folder_ / "killed", 5);
  job.end_by(SIGKILL, job.group());
  ASSERT_EQ(run_train(arguments).code, 0);
  expect_best("killed");
  EXPECT_EQ(manifest("killed/best")["step"], manifest("whole/best")["step"]);
  for (const char* shard : {"shard-00001-of-00002.safetensors", "shard-00002-of-00002.safetensors"}) {
    EXPECT_EQ(read_bytes(folder_ / "killed/best" + ("/" + std::string(shard))),
              read_bytes(folder_ / "whole/best" + ("/" + std::string(shard))));
  }
}

TEST_F(TrainBest, IsWhatPatienceEndsWithAndSamplesAndExportsTake) {
  const Ending ending = tiny("run", training_ + "--steps 50 --patience 2 --export --export-best");
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, AllOf(HasSubstr("stops early: the validation loss was lowest"),
                                   HasSubstr("that checkpoint is " + (folder_ / "run/best"))));
  expect_best("run");
  EXPECT_EQ(run_train("sample --sample-length 5 --checkpoint " + (folder_ / "run/best")).code, 0);
  const std::string model = folder_ / "run/model";
  const json exported =
      evaluated("--validation-windows 64 --model " + model + " --init-from " + model + " --text " + text_);
  EXPECT_EQ(exported["validation_loss"], lowest("run").second);
}

TEST_F(TrainBest, BelongsToItsRun) {
  ASSERT_EQ(tiny("run", job_).code, 0);
  // A run that goes on elsewhere has a best checkpoint of its own, however its losses compare.
  ASSERT_EQ(tiny("other", training_ + "--steps 14 --checkpoint " + (folder_ / "run/step-12")).code, 0);
  expect_best("other");
}

TEST_F(TrainBest, IsNotKeptWhereNobodyAsks) {
  ASSERT_EQ(tiny("once", "--steps 2").code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "once/best"));
  const Ending ending = tiny("never", job_ + "--no-best");
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_FALSE(fs::exists(folder_ / "never/best"));
  EXPECT_THAT(ending.output, Not(HasSubstr("best")));
  EXPECT_THAT(tiny("refused", "--export-best").output,
              AllOf(HasSubstr("--export-best is given without --export"), HasSubstr("no best checkpoint is kept")));
}

}  // namespace
