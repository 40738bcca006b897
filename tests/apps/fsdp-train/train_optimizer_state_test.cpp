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

  // After 250 steps of a model of 36,000 parameters from these first weights. The learning rate is a fourth of the
  // usual one: with that, one run in ten diverges for a while, in fp32 too, and ends 10 to 30 % higher.
  double validation_loss(const std::string& state, int seed) const {
    const std::string run = state + std::to_string(seed);
    const Ending ending =
        tiny(run, "--text " + verses_ +
                      " --context 32 --width 32 --batch 16 --steps 250 --warmup 20 --lr 0.001 --ranks 1 "
                      "--validation-windows 100 --optimizer-state " +
                      state + " --seed " + std::to_string(seed));
    EXPECT_EQ(ending.code, 0) << ending.output;
    const auto records = metrics_of(folder_ / run);
    return records.empty() ? NAN : records.back().value("validation_loss", double{NAN});
  }

  std::string verses_;
};

// No more than 1 % behind, in the mean of some first weights. It is no rounding: codes of 8 bits are 1 % apart where
// they are nearest, so weights go other ways from the first step on. Over 12 first weights the loss in 8 bits is 1.0 %
// lower than in fp32, with a standard deviation of 0.3 %.
TEST_F(TrainOptimizerState, In8BitsReachesTheValidationLossOfFp32) {
  double fp32 = 0, packed = 0;
  for (const int seed : {1, 2, 3, 4}) {
    const double of_fp32 = validation_loss("fp32", seed), of_packed = validation_loss("8bit", seed);
    EXPECT_LT(of_fp32, 2.9) << seed;  // of 5.5 before: something was learned
    EXPECT_NE(of_packed, of_fp32) << seed;
    fp32 += of_fp32;
    packed += of_packed;
  }
  EXPECT_LT(packed / fp32, 1.01);
}

}  // namespace
