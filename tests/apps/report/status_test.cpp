#include "report/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/report/sample_runs.h"
#include "files/file_lock.h"
#include "metrics/metrics.h"
#include "report/facts.h"
#include "report/page.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

RunStatus status_with(const SampleFiles& files) {
  TemporaryFolder folder;
  return read_run(write_sample_run(folder.path(), "run", files)).status;
}

TEST(Status, IsThatOfTheLastRecord) {
  EXPECT_EQ(status_with({.has_start = true, .end = EndStatus::Finished}), RunStatus::Finished);
  EXPECT_EQ(status_with({.has_start = true, .end = EndStatus::Stopped}), RunStatus::Stopped);
  EXPECT_EQ(status_with({.has_start = true, .end = EndStatus::Failed}), RunStatus::Failed);
  EXPECT_EQ(status_with({.has_start = true}), RunStatus::BrokenOff);
}

TEST(Status, OfAnOlderRecordIsKnownWhenAllStepsAreDone) {
  EXPECT_EQ(status_with({.config = R"({"steps": 300})"}), RunStatus::Finished);
  EXPECT_EQ(status_with({.config = R"({"steps": 301})"}), RunStatus::Unknown);
}

TEST(Status, IsRunningWhileTheRunIsLocked) {
  TemporaryFolder folder;
  const auto path = write_sample_run(folder.path(), "run", {.has_start = true, .end = EndStatus::Stopped});
  {
    const fsdp::files::FileLock lock(path / "lock");
    EXPECT_EQ(read_run(path).status, RunStatus::Running);
  }
  EXPECT_EQ(read_run(path).status, RunStatus::Stopped);
}

TEST(Status, OfAResumedRunIsThatOfItsLastProcess) {
  TemporaryFolder folder;
  const auto path = write_sample_run(folder.path(), "run", {.has_start = true, .end = EndStatus::Stopped});
  {
    MetricsFile metrics(path / "metrics.jsonl", 300, [](const std::string&) {});
    ProcessStart again = sample_start();
    again.step = 300;
    metrics.write(again);
    metrics.write(StepRecord{.step = 301, .loss = 1.5});
  }
  const RunFolder run = read_run(path);
  EXPECT_EQ(run.status, RunStatus::BrokenOff);
  EXPECT_THAT(facts_section({run}), HasSubstr("2, from steps 0, 300"));
}

TEST(Facts, AreThoseOfTheProcess) {
  TemporaryFolder folder;
  const RunFolder run = read_run(write_sample_run(folder.path(), "run", {.has_start = true, .end = EndStatus::Failed}));
  EXPECT_EQ(progress_of(run), "Step 300 of 600, began 2026-11-23 03:01:02 UTC");
  EXPECT_THAT(notice_of(run), HasSubstr("the &lt;b&gt;reason"));
  const std::string facts = facts_section({run});
  for (const char* fact :
       {"GPT-2: 4 layers of width 64", "834,304", "<dd>2, 1 thread per rank</dd>",
        "tower, &lt;b&gt;EPYC, 2 cores, 24.0 GB of memory", "2026-11-23 03:01:02 UTC",
        "2026-11-23 03:02:00 UTC (failed)", "fsdp-train 1.2.3, LibTorch 2.13.0",
        "<span>fsdp-train</span> <span>--text</span> <span>&#39;a</span> <span>file&#39;</span>", "/home/ada"}) {
    EXPECT_THAT(facts, HasSubstr(fact));
  }
}

TEST(Facts, OfABrokenOffRunSayWhereItEnded) {
  TemporaryFolder folder;
  const RunFolder run = read_run(write_sample_run(folder.path(), "run", {.has_start = true}));
  EXPECT_THAT(notice_of(run), HasSubstr("after step 300"));
  EXPECT_THAT(report_page({run}), HasSubstr("<span class=\"status broken-off\">broken off</span>"));
}

TEST(Facts, OfOlderRecordsAreThoseOfTheConfiguration) {
  TemporaryFolder folder;
  const RunFolder run =
      read_run(write_sample_run(folder.path(), "run", {.config = R"({"parameters": 834304, "ranks": 2})"}));
  EXPECT_THAT(facts_section({run}), HasSubstr("<dd>834,304</dd>"));
  EXPECT_THAT(facts_section({run}), Not(HasSubstr("Machine")));
}

}  // namespace
}  // namespace trainer
