// Which steps may be traced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "options/contradictions.h"
#include "options/resolve.h"

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> problems_of(StepRange traced) {
  RunOptions options;
  options.steps = 10;
  options.trace_steps = traced;
  return resolve(options, {});
}

TEST(TraceSteps, LieWithinTheRun) {
  EXPECT_THAT(problems_of({1, 10}), IsEmpty());
  EXPECT_THAT(problems_of({3, 11}), ElementsAre("--trace-steps ends with step 11, after --steps 10."));
  EXPECT_THAT(problems_of({11, 12}), ElementsAre("--trace-steps begins with step 11, after --steps 10."));
}

// A profile is in memory, a trace of each rank is not.
TEST(TraceSteps, AreFewInAProfile) {
  RunOptions options;
  options.trace_steps = {.first = 1, .last = 100};
  options.profile = "profile";
  EXPECT_THAT(contradictions(options), IsEmpty());
  options.trace_steps->last = 101;
  EXPECT_THAT(contradictions(options), ElementsAre(testing::HasSubstr("--trace-steps 1..101, more than 100 steps")));
  options.profile.clear();
  EXPECT_THAT(contradictions(options), IsEmpty());
}

}  // namespace
}  // namespace trainer
