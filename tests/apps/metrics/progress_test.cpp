#include "metrics/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "apps/columns.h"

namespace trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

StepRecord some_record() {
  return {.step = 120,
          .loss = 2.13456,
          .grad_norm = 0.8123,
          .lr = 3e-3,
          .tokens_per_second = 14213,
          .memory_bytes = 212'000'000,
          .seconds_left = 83,
          .step_seconds = 0.1234,
          .mfu = 0.417};
}

TEST(Progress, BarFitsAnyTerminal) {
  for (int width = 1; width <= 250; ++width) {
    for (bool colour : {false, true}) {
      EXPECT_LT(columns(progress_bar(some_record(), 600, width, colour)), std::max(width, 2)) << width;
    }
  }
}

TEST(Progress, BarSaysAllIn80Columns) {
  const std::string line = progress_bar(some_record(), 600, 80, false);
  for (const char* part :
       {"120/600", "█", "░", "loss 2.135", "norm 0.81", "lr 3.0e-3", "14.2k tok/s", "212 MB", "1:23 left"}) {
    EXPECT_THAT(line, HasSubstr(part));
  }
}

TEST(Progress, BarSaysStillMoreWhereThereIsRoom) {
  const std::string line = progress_bar(some_record(), 600, 120, false);
  for (const char* part : {"MFU 41.7 %", "123 ms", "212 MB"}) EXPECT_THAT(line, HasSubstr(part));
  StepRecord unmeasured = some_record();
  unmeasured.mfu.reset();
  EXPECT_THAT(progress_bar(unmeasured, 600, 120, false), Not(HasSubstr("MFU")));
}

TEST(Progress, BarKeepsWhatMattersMostWhereItIsNarrow) {
  const std::string line = progress_bar(some_record(), 600, 40, false);
  EXPECT_THAT(line, HasSubstr("loss 2.135"));
  EXPECT_THAT(line, HasSubstr("1:23 left"));
  EXPECT_THAT(line, Not(HasSubstr("212 MB")));
}

TEST(Progress, ColourOnlyWhereAskedFor) {
  EXPECT_THAT(progress_bar(some_record(), 600, 80, true), HasSubstr("\033["));
  EXPECT_FALSE(has_control_characters(progress_bar(some_record(), 600, 80, false)));
}

TEST(Progress, PlainLinesAreAlignedAndPlain) {
  StepRecord last = some_record();
  last.step = 600;
  last.seconds_left = 0;
  last.loss = 12.5;
  const std::string a = progress_line(some_record(), 600), b = progress_line(last, 600);
  EXPECT_EQ(a.size(), b.size());
  EXPECT_FALSE(has_control_characters(a));
  EXPECT_EQ(a,
            "step 120/600  loss  2.1346  norm    0.812  lr 3.00e-03   14.2k tok/s  MFU 41.7 %  memory  212 MB    123 ms"
            "  left    1:23");
}

TEST(Progress, NumbersThatWentAstrayBreakNoLine) {
  StepRecord astray = some_record();
  astray.loss = 1e30;
  astray.grad_norm = std::numeric_limits<double>::infinity();
  EXPECT_EQ(progress_line(astray, 600).size(), progress_line(some_record(), 600).size());
  EXPECT_THAT(progress_bar(astray, 600, 80, false), HasSubstr("loss 1.0e+30"));
}

// The output for steps 1 .. 10.
std::string printed(int64_t log_every, Terminal terminal) {
  testing::internal::CaptureStdout();
  Progress progress(10, log_every, terminal);
  for (int64_t step = 1; step <= 10; ++step) {
    StepRecord record = some_record();
    record.step = step;
    progress.show(record);
  }
  progress.finish();
  return testing::internal::GetCapturedStdout();
}

TEST(Progress, PipedItShowsTheFirstTheLastAndEveryNth) {
  const std::string text = printed(4, {});
  for (const char* shown : {"step  1/10", "step  4/10", "step  8/10", "step 10/10"})
    EXPECT_THAT(text, HasSubstr(shown));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_FALSE(has_control_characters(text));
  const std::string rare = printed(0, {});
  EXPECT_EQ(std::count(rare.begin(), rare.end(), '\n'), 2);
}

TEST(Progress, OnATerminalItRedrawsOneLine) {
  const std::string text = printed(0, {.interactive = true});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_THAT(text, HasSubstr("\r1/10"));
  EXPECT_THAT(text, HasSubstr("\r10/10"));
}

std::string told(Terminal terminal) {
  testing::internal::CaptureStdout();
  {
    Progress progress(10, 1, terminal);
    progress.show({.step = 1});
    progress.tell("slow rank 2\x1b[2J");
  }
  return testing::internal::GetCapturedStdout();
}

TEST(Progress, TellsAboveTheLineThatItRedraws) {
  const std::string piped = told({});
  EXPECT_TRUE(piped.ends_with("\nslow rank 2\\x1b[2J\n")) << piped;
  const std::string drawn = told({.interactive = true});
  EXPECT_THAT(drawn, HasSubstr("\r\033[Jslow rank 2\\x1b[2J\n\r1/10"));
  EXPECT_TRUE(drawn.ends_with("\n"));
}

}  // namespace
}  // namespace trainer
