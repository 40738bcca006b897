#include "metrics/metrics_reader.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "metrics/metrics.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;
using testing::SizeIs;

const std::string kTwoSteps = "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2}\n";

TEST(MetricsReader, GivesBackWhatWasWritten) {
  TemporaryFolder folder;
  MetricsFile file(folder / "m", 0, [](const std::string&) {});
  file.write(StepRecord{.step = 1, .loss = 2.5, .lr = 0.1, .memory = {{"parameters", 7}}});
  file.write(Event{.step = 1, .text = "checkpoint saved", .seconds = 3});
  file.write(StepRecord{.step = 2, .loss = 0.1, .validation_loss = 1.5, .loss_scale = 2, .skipped = true});
  const RunMetrics metrics = read_metrics(folder / "m");
  EXPECT_THAT(metrics.steps, ElementsAre(1, 2));
  EXPECT_THAT(metrics.column("loss"), ElementsAre(2.5, 0.1));
  EXPECT_THAT(metrics.column("memory.parameters"), ElementsAre(7.0, IsNan()));
  EXPECT_THAT(metrics.column("validation_loss"), ElementsAre(IsNan(), 1.5));
  EXPECT_THAT(metrics.column("skipped"), ElementsAre(IsNan(), 1.0));
  EXPECT_THAT(metrics.column("no such field"), ElementsAre(IsNan(), IsNan()));
  ASSERT_THAT(metrics.events, SizeIs(1));
  EXPECT_EQ(metrics.events[0].text, "checkpoint saved");
  EXPECT_EQ(metrics.events[0].step, 1);
  EXPECT_EQ(metrics.events[0].seconds, 3);
  EXPECT_THAT(metrics.problems, SizeIs(0));
}

TEST(MetricsReader, GivesBackCheckpointsAndData) {
  TemporaryFolder folder;
  const CheckpointRecord saved{.step = 1,
                               .seconds = 2.5,
                               .folder = "step-1",
                               .bytes = 1 << 20,
                               .save_seconds = 0.125,
                               .pause_seconds = 0.0625,
                               .kept = 1,
                               .removed = {"a"}};
  const DataRecord data{
      .training_tokens = 900, .validation_tokens = 100, .held_back = 0.1, .vocabulary = 256, .crlf = 2};
  {
    MetricsFile file(folder / "m", 0, [](const std::string&) {});
    file.write(data);
    file.write(StepRecord{.step = 1, .loss = 2.5});
    file.write(saved);
    file.write(StepRecord{.step = 2, .loss = 2.5});
    file.write(CheckpointRecord{.step = 2, .folder = "best", .best = true});
  }
  RunMetrics metrics = read_metrics(folder / "m");
  ASSERT_THAT(metrics.checkpoints, SizeIs(2));
  EXPECT_EQ(to_json(metrics.checkpoints[0]), to_json(saved));
  EXPECT_TRUE(metrics.checkpoints[1].best);
  ASSERT_TRUE(metrics.data.has_value());
  EXPECT_EQ(to_json(*metrics.data), to_json(data));
  EXPECT_THAT(metrics.events, SizeIs(0));
  // A run that goes on from step 1 has not saved the others.
  folder.write("m", read_bytes(folder / "m") + "{\"step\":2,\"loss\":1}\n");
  EXPECT_THAT(read_metrics(folder / "m").checkpoints, SizeIs(1));
}

TEST(MetricsReader, TakesDefaultsForFieldsOfOtherTypes) {
  TemporaryFolder folder;
  const RunMetrics metrics = read_metrics(folder.write(
      "m", R"({"step":1,"event":"checkpoint","folder":3,"bytes":1e300,"best":"no","removed":[1,"a",{}]})"
           "\n"
           R"({"step":1,"event":"data","tokenizer":[],"vocabulary":"many","hidden":-0.5,"held_back":"all"})"
           "\n" +
               kTwoSteps));
  ASSERT_THAT(metrics.checkpoints, SizeIs(1));
  EXPECT_EQ(metrics.checkpoints[0].folder, "");
  EXPECT_EQ(metrics.checkpoints[0].bytes, 0);
  EXPECT_FALSE(metrics.checkpoints[0].best);
  EXPECT_THAT(metrics.checkpoints[0].removed, ElementsAre("a"));
  EXPECT_EQ(metrics.data->hidden, 0);
  EXPECT_EQ(metrics.data->held_back, 0);
}

TEST(MetricsReader, ReadsFieldsThatItDoesNotKnow) {
  TemporaryFolder folder;
  const RunMetrics metrics = read_metrics(
      folder.write("m", "{\"step\":1,\"new\":4,\"text\":\"a\",\"loss\":null,\"deep\":{\"a\":{\"b\":1}}}\n"));
  EXPECT_THAT(metrics.column("new"), ElementsAre(4.0));
  EXPECT_THAT(metrics.column("loss"), ElementsAre(IsNan()));
  EXPECT_FALSE(metrics.columns.contains("text"));
}

TEST(MetricsReader, LeavesOutDamagedLinesAndSaysWhich) {
  TemporaryFolder folder;
  const std::string path =
      folder.write("m", "{\"step\":1,\"loss\":3}\nnonsense\n\n{\"step\":2,\"loss\":2}\n{\"step\":3,\"lo");
  const RunMetrics metrics = read_metrics(path);
  EXPECT_THAT(metrics.column("loss"), ElementsAre(3.0, 2.0));
  EXPECT_THAT(metrics.problems,
              ElementsAre(HasSubstr("m', line 2: not a JSON object with a step"), HasSubstr("line 5")));
}

TEST(MetricsReader, TellsTwentyDamagedLinesAndCountsTheRest) {
  TemporaryFolder folder;
  std::string text = kTwoSteps;
  for (int i = 0; i < 50; ++i) text += "nonsense\n";
  const RunMetrics metrics = read_metrics(folder.write("m", text));
  ASSERT_THAT(metrics.problems, SizeIs(21));
  EXPECT_THAT(metrics.problems.back(), HasSubstr("30 more lines"));
}

TEST(MetricsReader, LetsLaterStepsReplaceEarlierOnes) {
  TemporaryFolder folder;
  const RunMetrics metrics = read_metrics(folder.write(
      "m", kTwoSteps + "{\"step\":2,\"event\":\"lost\"}\n{\"step\":3,\"loss\":1}\n{\"step\":2,\"loss\":9}\n"));
  EXPECT_THAT(metrics.steps, ElementsAre(1, 2));
  EXPECT_THAT(metrics.column("loss"), ElementsAre(3.0, 9.0));
  EXPECT_THAT(metrics.events, SizeIs(0));
}

TEST(MetricsReader, RefusesWhatHasNoStep) {
  TemporaryFolder folder;
  const auto message_of = [&](const std::string& bytes) -> std::string {
    try {
      read_metrics(folder.write("m", bytes));
    } catch (const fsdp::Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message_of(""), HasSubstr("no record of a step in its 0 lines"));
  EXPECT_THAT(message_of("nonsense\n"), HasSubstr("line 1: not a JSON object"));
  EXPECT_THAT(message_of("{\"step\":1,\"event\":\"a\"}\n"), HasSubstr("no record of a step in its 1 lines"));
  EXPECT_THAT(message_of(std::string(5000, '\0')), HasSubstr("line 1"));
  EXPECT_THROW(read_metrics(folder / "none"), fsdp::Error);
  EXPECT_THROW(read_metrics(folder.path()), fsdp::Error);  // a folder
}

}  // namespace
}  // namespace trainer
