// Which steps may be traced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace trainer
