#include "metrics/process_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "console/shell_words.h"
#include "metrics/machine.h"
#include "metrics/metrics.h"
#include "metrics/metrics_reader.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::SizeIs;

const MetricsFile::Tell kSilently = [](const std::string&) {};

TEST(ProcessRecord, IsReadBack) {
  ProcessStart start;
  add_machine(start);
  start.step = 3;
  start.model = "GPT-2 \"a\"";
  start.parameters = 834'304;
  start.ranks = 4;
  EXPECT_EQ(to_json(start_from(to_json(start))), to_json(start));
  for (const EndStatus status : {EndStatus::Finished, EndStatus::Stopped, EndStatus::Failed}) {
    const ProcessEnd end{.step = 7, .seconds = 1.5, .time = utc_time(), .status = status, .reason = "why"};
    EXPECT_EQ(to_json(end_from(to_json(end))), to_json(end));
  }
}

TEST(ProcessRecord, OfOtherTypesHasDefaults) {
  const auto record =
      *parse_record(R"({"step":1,"command":3,"ranks":"two","parameters":1e300,"status":[],"seconds":""})");
  EXPECT_EQ(start_from(record).command, "");
  EXPECT_EQ(start_from(record).ranks, 1);
  EXPECT_EQ(start_from(record).parameters, 0);
  EXPECT_EQ(end_from(record).status, EndStatus::Failed);
  EXPECT_EQ(end_from(record).seconds, 0);
}

TEST(ProcessRecord, TellsOfThisMachine) {
  ProcessStart start;
  add_machine(start);
  EXPECT_THAT(start.time, MatchesRegex("20[0-9][0-9]-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+Z"));
  EXPECT_THAT(start.command, HasSubstr("test_app_metrics"));
  EXPECT_EQ(start.folder, std::filesystem::current_path());
  EXPECT_EQ(start.process, getpid());
  EXPECT_THAT(start.host, Not(IsEmpty()));
  EXPECT_GE(start.cores, 1);
  EXPECT_GT(start.total_memory, 1 << 20);
}

TEST(ShellWords, AreQuotedWhereAShellWouldTakeThemApart) {
  EXPECT_EQ(shell_words({"fsdp-train", "--lr", "1e-3", "--text", "a b.txt", "it's", ""}),
            R"(fsdp-train --lr 1e-3 --text 'a b.txt' 'it'\''s' '')");
}

TEST(MetricsReader, KnowsTheProcessesOfARun) {
  TemporaryFolder folder;
  {
    MetricsFile metrics(folder / "m", 0, kSilently);
    metrics.write(ProcessStart{.step = 0, .command = "first"});
    metrics.write(StepRecord{.step = 1, .loss = 1});
    metrics.write(Event{.step = 1, .text = "saved"});
    metrics.write(ProcessEnd{.step = 1, .status = EndStatus::Stopped});
  }
  {
    MetricsFile metrics(folder / "m", 1, kSilently);
    metrics.write(ProcessStart{.step = 1, .command = "second"});
    metrics.write(StepRecord{.step = 2, .loss = 1});
  }
  const RunMetrics metrics = read_metrics(folder / "m");
  ASSERT_THAT(metrics.processes, SizeIs(2));
  EXPECT_EQ(metrics.processes[0].start.command, "first");
  ASSERT_TRUE(metrics.processes[0].end.has_value());
  EXPECT_EQ(metrics.processes[0].end->status, EndStatus::Stopped);
  EXPECT_EQ(metrics.processes[1].start.step, 1);
  EXPECT_FALSE(metrics.processes[1].end.has_value());
  EXPECT_THAT(metrics.events, SizeIs(1));
  EXPECT_EQ(metrics.steps, (std::vector<int64_t>{1, 2}));
  EXPECT_THAT(metrics.problems, IsEmpty());
}

}  // namespace
}  // namespace trainer
