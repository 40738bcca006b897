// Runs of fsdp-train with good and with bad arguments.
#include "apps/fsdp-train/train_program.h"

#include <gmock/gmock.h>

#include <cmath>

#include "apps/columns.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

class RefusingTrainProgram : public TrainProgram {
 protected:
  void expect_refused(const Ending& ending, const std::string& run, const std::string& message) {
    EXPECT_EQ(ending.code, 2) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr(message));
    EXPECT_FALSE(fs::exists(folder_ / run)) << "something was written";
  }
};

TEST_F(TrainProgram, LeavesMetricsACheckpointAndASample) {
  const Ending ending = tiny("run", "--ranks 2 --steps 5 --prompt And");
  ASSERT_EQ(ending.code, 0) << ending.output;
  const std::vector<json> records = metrics_of(folder_ / "run");
  ASSERT_EQ(records.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(records[i]["step"], i + 1);
  EXPECT_GT(records[4]["tokens_per_second"], 0);
  EXPECT_TRUE(records[4].contains("validation_loss"));
  EXPECT_TRUE(fs::exists(folder_ / "run/step-5/manifest.json"));
  EXPECT_EQ(json::parse(read_bytes(folder_ / "run/config.json"))["ranks"], 2);
  EXPECT_THAT(read_bytes(folder_ / "run/sample.txt"), testing::StartsWith("And"));
  for (const char* part :
       {"parameters", "step 1/5", "step 5/5", "loss, nats per token", "sample:\n\nAnd", "run/step-5"}) {
    EXPECT_THAT(ending.output, HasSubstr(part));
  }
  EXPECT_FALSE(has_control_characters(ending.output)) << ending.output;
}

TEST_F(TrainProgram, Learns) {
  ASSERT_EQ(tiny("run", "--ranks 2 --steps 60 --lr 0.01").code, 0);
  const std::vector<double> losses = losses_of(folder_ / "run");
  EXPECT_NEAR(losses.front(), std::log(256.0), 0.2);
  EXPECT_LT(losses.back(), losses.front() - 1.5);
}

TEST_F(TrainProgram, HasTheSameLossesForAnyRanksTimesMicroBatches) {
  ASSERT_EQ(tiny("one", "--ranks 1 --micro-batches 4 --steps 12").code, 0);
  ASSERT_EQ(tiny("two", "--ranks 2 --micro-batches 2 --steps 12").code, 0);
  ASSERT_EQ(tiny("four", "--ranks 4 --micro-batches 1 --steps 12").code, 0);
  const std::vector<double> one = losses_of(folder_ / "one");
  ASSERT_EQ(one.size(), 12u);
  EXPECT_EQ(losses_of(folder_ / "two"), one);
  EXPECT_EQ(losses_of(folder_ / "four"), one);
  EXPECT_EQ(read_bytes(folder_ / "four/sample.txt"), read_bytes(folder_ / "one/sample.txt"));
}

TEST_F(TrainProgram, GoesOnFromACheckpointAsIfItHadNotStopped) {
  ASSERT_EQ(tiny("whole", "--ranks 2 --steps 10 --save-every 4").code, 0);
  const std::string checkpoint = folder_ / "whole/step-4";
  ASSERT_EQ(tiny("rest", "--ranks 2 --steps 10 --checkpoint " + checkpoint).code, 0);
  const std::vector<double> whole = losses_of(folder_ / "whole"), rest = losses_of(folder_ / "rest");
  ASSERT_EQ(rest.size(), 6u);
  EXPECT_EQ(std::vector<double>(whole.begin() + 4, whole.end()), rest);
}

TEST_F(RefusingTrainProgram, RefusesACheckpointOfAnotherModel) {
  ASSERT_EQ(tiny("run", "--ranks 2 --steps 1").code, 0);
  const std::string checkpoint = " --checkpoint " + (folder_ / "run/step-1");
  expect_refused(tiny("other", "--ranks 2 --steps 9 --width 24" + checkpoint), "other", "checkpoint");
  expect_refused(tiny("done", "--ranks 2 --steps 1" + checkpoint), "done", "nothing is left to train");
}

TEST_F(RefusingTrainProgram, RefusesWrongArgumentsAllAtOnce) {
  const Ending ending = tiny("run", "--ranks 0 --steps some --colour red");
  expect_refused(ending, "run", "--ranks is 0; it must be at least 1.");
  EXPECT_THAT(ending.output, HasSubstr("3 problems"));
  EXPECT_THAT(ending.output, HasSubstr("--steps: 'some' is not a whole number."));
  EXPECT_THAT(ending.output, HasSubstr("'--colour' is no option of this program."));
}

TEST_F(RefusingTrainProgram, NamesWhatWasMeant) {
  const Ending evaluation = run_train("eval " + (folder_ / "run"));
  EXPECT_EQ(evaluation.code, 2);
  EXPECT_THAT(evaluation.output, HasSubstr("1 problem\n"));
  EXPECT_THAT(evaluation.output, HasSubstr("did you mean fsdp-train --eval-only --run " + (folder_ / "run") + "?"));
  EXPECT_THAT(run_train("sample " + (folder_ / "run") + " --lenght 3").output,
              HasSubstr("\nfsdp-train sample --help lists all its options. "));
  EXPECT_THAT(run_train("report").output, HasSubstr("\nfsdp-train report --help lists all its options. "));
  folder_.write("one.txt", "text");
  folder_.write("two.txt", "text");
  expect_refused(tiny("run", "--text " + (folder_ / "*.txt")), "run", "--text takes one path, and ");
  const std::string both = (folder_ / "one.txt") + "," + (folder_ / "two.txt");
  expect_refused(tiny("run", "--text " + both), "run",
                 "Each of several paths needs one: " + (folder_ / "one.txt") + ":1,");
}

TEST_F(RefusingTrainProgram, RefusesAWrongArgumentAndAMissingTextTogether) {
  const Ending ending = tiny("run", "--ranks 0 --text " + (folder_ / "none"));
  expect_refused(ending, "run", "--ranks is 0; it must be at least 1.");
  EXPECT_THAT(ending.output, HasSubstr("none' does not exist"));
}

TEST_F(RefusingTrainProgram, RefusesTextsThatAreNone) {
  expect_refused(tiny("run", "--text " + (folder_ / "none")), "run", "none' does not exist");
  expect_refused(tiny("run", "--text " + folder_.write("empty", "")), "run", "empty' is empty");
  expect_refused(tiny("run", "--text " + folder_.write("a.pdf", "%PDF-1.4\n")), "run",
                 "is a PDF, and texts are read as UTF-8");
  expect_refused(tiny("run", "--text " + folder_.write("a.bin", std::string(99, '\0'))), "run",
                 "no text: byte 0 is NUL");
  expect_refused(tiny("run", "--text " + folder_.write("short", "too short")), "run",
                 "has 9 tokens, and one window of context 16 needs 17");
  fs::create_directory(folder_ / "void");
  expect_refused(tiny("run", "--text " + (folder_ / "void")), "run", "void' is a folder without a text file");
}

TEST_F(RefusingTrainProgram, RefusesARunFolderThatIsAFile) {
  const Ending ending = run_train("--text " + text_ + " --run " + text_);
  EXPECT_EQ(ending.code, 2);
  EXPECT_THAT(ending.output, HasSubstr("text.txt' is a file"));
}

TEST_F(TrainProgram, Helps) {
  const Ending ending = run_train("--help");
  EXPECT_EQ(ending.code, 0);
  EXPECT_THAT(ending.output, HasSubstr("--micro-batches"));
}

}  // namespace
