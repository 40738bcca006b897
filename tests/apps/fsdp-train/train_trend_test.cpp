// A run that ends while its loss still falls says how to go on.
#include <gmock/gmock.h>

#include "apps/fsdp-train/train_program.h"

namespace {

using testing::HasSubstr;
using testing::Not;

using TrainTrend = TrainProgram;

constexpr const char* kFalls = "the validation loss still falls: ";

std::string go_on(const std::string& run, int steps) {
  return "now; go on with: fsdp-train --resume " + run + " --steps " + std::to_string(steps) + "\n";
}

TEST_F(TrainTrend, IsToldWithTheCommandThatGoesOn) {
  const std::string run = folder_ / "run";
  const Ending ending = tiny("run", "--steps 100 --ranks 2");
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr(kFalls));
  EXPECT_THAT(ending.output, testing::EndsWith(go_on(run, 200)));
  const Ending further = run_train("--resume " + run + " --steps 200");
  EXPECT_EQ(further.code, 0) << further.output;
  EXPECT_EQ(losses_of(run).size(), 200);
}

TEST_F(TrainTrend, IsToldByTheValidationsThatWereAskedFor) {
  const Ending ending = tiny("run", "--steps 60 --validate-every 10");
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr(go_on(folder_ / "run", 120)));
}

TEST_F(TrainTrend, IsNotToldOfALossThatStands) {
  int runs = 0;
  for (const char* more :
       {"--steps 100 --lr 1e-9", "--steps 20", "--steps 100 --no-save", "--steps 100 --validation-fraction 0"}) {
    const Ending ending = tiny("run-" + std::to_string(++runs), more);
    ASSERT_EQ(ending.code, 0) << ending.output;
    EXPECT_THAT(ending.output, Not(HasSubstr(kFalls))) << more;
  }
}

}  // namespace
