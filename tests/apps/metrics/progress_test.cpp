#include "metrics/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

const Terminal kPlain{.interactive = true, .utf8 = true}, kColoured{.interactive = true, .colour = true, .utf8 = true},
    kAscii{.interactive = true};

TEST(Progress, BarFitsAnyTerminal) {
  for (int width = 1; width <= 250; ++width) {
    for (const Terminal& terminal : {kPlain, kColoured, kAscii}) {
      EXPECT_LT(columns(progress_bar(some_record(), 600, width, terminal)), std::max(width, 2)) << width;
      EXPECT_LT(columns(waiting_bar(0, 600, width, terminal)), std::max(width, 2)) << width;
    }
  }
}

TEST(Progress, BarSaysAllIn80Columns) {
  const std::string line = progress_bar(some_record(), 600, 80, kPlain);
  for (const char* part :
       {"120/600", "█", "░", "loss  2.135", "norm  0.81", "lr 3.0e-3", "14.2k tok/s", "212 MB", "1:23 left"}) {
    EXPECT_THAT(line, HasSubstr(part));
  }
}

TEST(Progress, BarSaysStillMoreWhereThereIsRoom) {
  const std::string line = progress_bar(some_record(), 600, 120, kPlain);
  for (const char* part : {"MFU 41.7 %", "123 ms", "212 MB"}) EXPECT_THAT(line, HasSubstr(part));
  StepRecord unmeasured = some_record();
  unmeasured.mfu.reset();
  EXPECT_THAT(progress_bar(unmeasured, 600, 120, kPlain), Not(HasSubstr("MFU")));
}

TEST(Progress, BarKeepsWhatMattersMostWhereItIsNarrow) {
  const std::string line = progress_bar(some_record(), 600, 40, kPlain);
  EXPECT_THAT(line, HasSubstr("loss  2.135"));
  EXPECT_THAT(line, HasSubstr("1:23 left"));
  EXPECT_THAT(line, Not(HasSubstr("212 MB")));
}

// Where "left" and all before it begin, from the first step of a run to its last.
TEST(Progress, FieldsStayInTheirPlaces) {
  StepRecord first = some_record(), last = some_record();
  first.step = 1;
  first.loss = 10.9377;
  first.grad_norm = 12.5;
  first.lr = 3e-5;
  first.tokens_per_second = 912;
  first.memory_bytes = 9'900'000;
  first.step_seconds = 12.3456;
  first.seconds_left = 3723;
  first.mfu = 0.0612;
  last.step = 600;
  last.seconds_left = 0;
  for (int width : {50, 60, 80, 120, 200}) {
    const std::string a = progress_bar(first, 600, width, kAscii), b = progress_bar(last, 600, width, kAscii);
    EXPECT_EQ(a.size(), b.size()) << a << "\n" << b;
    for (const char* label : {"/600", "loss ", "norm ", "lr ", " tok/s", "MFU ", " ms", " left"}) {
      EXPECT_EQ(a.find(label), b.find(label)) << label << "\n" << a << "\n" << b;
    }
  }
}

TEST(Progress, IsAsciiWhereTheTerminalIs) {
  for (const std::string& line : {progress_bar(some_record(), 600, 80, kAscii), waiting_bar(0, 600, 80, kAscii)}) {
    EXPECT_TRUE(std::ranges::all_of(line, [](unsigned char c) { return c < 0x80; })) << line;
  }
  EXPECT_THAT(progress_bar(some_record(), 600, 80, kAscii), HasSubstr("#..."));
}

TEST(Progress, ShowsTheFirstStepBeforeItIsDone) {
  testing::internal::CaptureStdout();
  {
    Progress progress(600, 0, kAscii);
    progress.begin(0);
  }
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("\r\033[?7l  0/600 "));
  EXPECT_THAT(waiting_bar(41, 600, 80, kAscii), HasSubstr("step 42 runs"));
  testing::internal::CaptureStdout();
  {
    Progress progress(600, 0, {});
    progress.begin(0);
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");  // a log file has the settings already
}

TEST(Progress, KeepsALinePerValidationAboveTheBar) {
  testing::internal::CaptureStdout();
  {
    Progress progress(600, 0, kAscii);
    for (int64_t step = 1; step <= 3; ++step) {
      StepRecord record = some_record();
      record.step = step;
      if (step != 2) record.validation_loss = 2.25;
      progress.show(record);
    }
  }
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, HasSubstr("step   1/600  validation loss  2.2500  loss  2.1346\n"));
  EXPECT_THAT(text, HasSubstr("\r\033[Jstep   3/600  validation loss  2.2500  loss  2.1346\n"));
  EXPECT_THAT(text, Not(HasSubstr("step   2/600")));
}

TEST(Progress, ColourOnlyWhereAskedFor) {
  EXPECT_THAT(progress_bar(some_record(), 600, 80, kColoured), HasSubstr("\033["));
  EXPECT_FALSE(has_control_characters(progress_bar(some_record(), 600, 80, kPlain)));
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
  EXPECT_THAT(progress_bar(astray, 600, 80, kPlain), HasSubstr("loss 1.0e+30"));
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

// Lines do not wrap while it is drawn.
TEST(Progress, OnATerminalItRedrawsOneLine) {
  const std::string text = printed(0, {.interactive = true});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_THAT(text, HasSubstr("\r\033[?7l 1/10 "));
  EXPECT_THAT(text, HasSubstr("\r\033[?7l10/10 "));
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
  EXPECT_THAT(drawn, HasSubstr("\r\033[Jslow rank 2\\x1b[2J\n\r\033[?7l 1/10 "));
  EXPECT_TRUE(drawn.ends_with("\n"));
}

}  // namespace
}  // namespace trainer
