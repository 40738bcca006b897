// Steps for which no line is due, and that are shown all the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "metrics/progress.h"

namespace trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string progress_shown(int64_t steps, std::optional<int64_t> validated_step) {
  testing::internal::CaptureStdout();
  {
    Progress progress(100, 50, {});
    for (int64_t step = 1; step <= steps; ++step) {
      StepRecord record{.step = step, .loss = 2.5};
      if (step == validated_step) record.validation_loss = 2.25;
      progress.show(record);
    }
  }
  return testing::internal::GetCapturedStdout();
}

TEST(Progress, ShowsEveryLossOnHeldBackText) {
  EXPECT_THAT(progress_shown(60, 7), HasSubstr("validation loss 2.2500"));
  EXPECT_THAT(progress_shown(60, 7), HasSubstr("step   7/100"));
  EXPECT_THAT(progress_shown(60, 7), Not(HasSubstr("step   8/100")));
}

TEST(Progress, EndsWithTheLastStep) {
  EXPECT_THAT(progress_shown(9, std::nullopt), HasSubstr("step   9/100"));
  const std::string text = progress_shown(50, std::nullopt);  // whose line was due
  EXPECT_EQ(text.find("step  50/100"), text.rfind("step  50/100"));
}

}  // namespace
}  // namespace trainer
