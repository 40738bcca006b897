// Moments in fewer bits learn as fp32 does: the quickstart's text, in short.
#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <string>

#include "apps/fsdp-train/train_program.h"
#include "support/required.h"

namespace {

class TrainOptimizerState : public TrainProgram {
 protected:
  void SetUp() override {
    if (run_command("command -v bible").code != 0) {
      FSDP_SKIP_TEST("the program bible is not there (Debian: bible-kjv, bible-kjv-text): scripts/setup installs it");
    }
    const Ending verses = run_command("bible -f gen1:1-exo40:38");
    ASSERT_EQ(verses.code, 0) << verses.output;
    const std::regex reference("(^|\n)[0-9]*[A-Za-z]+[0-9]+:[0-9]+ ");
    verses_ = folder_.write("verses.txt", std::regex_replace(verses.output, reference, "$1"));
  }

  // After 250 steps of a model of 36,000 parameters, with all else as in the quickstart.
  double validation_loss(const std::string& state) const {
    const Ending ending = tiny(state, "--text " + verses_ +
                                          " --context 32 --width 32 --batch 16 --steps 250 --lr 6e-3 --warmup 20 "
                                          "--validation-windows 100 --optimizer-state " +
                                          state);
    EXPECT_EQ(ending.code, 0) << ending.output;
    const auto records = metrics_of(folder_ / state);
    return records.empty() ? NAN : records.back().value("validation_loss", double{NAN});
  }

  std::string verses_;
};

// Within 1 %, which is what fewer bits may cost. It is no rounding: codes of 8 bits are 1 % apart where they are
// nearest, so weights go other ways from the first step on. Runs have the same bits every time, and so does the
// difference.
TEST_F(TrainOptimizerState, In8BitsReachesTheValidationLossOfFp32) {
  const double fp32 = validation_loss("fp32"), packed = validation_loss("8bit");
  EXPECT_LT(fp32, 2.6);  // of 5.5 before: something was learned
  EXPECT_NEAR(packed / fp32, 1, 0.01);
  EXPECT_NE(packed, fp32);
}

}  // namespace
