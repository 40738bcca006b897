// Several sources of data with weights.
#include <gmock/gmock.h>

#include "apps/fsdp-train/train_program.h"

namespace {

using testing::AllOf;
using testing::HasSubstr;

class TrainSources : public TrainProgram {
 protected:
  TrainSources() {
    std::string code;
    for (int i = 0; i < 100; ++i) code += "int x" + std::to_string(i) + " = " + std::to_string(i * i) + ";\n";
    code_ = folder_.write("code.txt", code);
    sources_ = text_ + ":3," + code_ + ":1";
  }

  Ending mixed(const std::string& run, const std::string& more) const {
    return tiny(run, "--text '" + sources_ + "' --schedule constant " + more);
  }

  std::string code_, sources_;
};

TEST_F(TrainSources, AreTheSameOnAnyNumberOfRanksAndResumed) {
  ASSERT_EQ(mixed("one", "--steps 8 --micro-batches 4").code, 0);
  ASSERT_EQ(mixed("two", "--steps 8 --micro-batches 2 --ranks 2").code, 0);
  ASSERT_EQ(mixed("four", "--steps 3 --ranks 4").code, 0);
  const Ending ending = mixed("four", "--steps 8 --ranks 4");
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_EQ(losses_of(folder_ / "two"), losses_of(folder_ / "one"));
  EXPECT_EQ(losses_of(folder_ / "four"), losses_of(folder_ / "one"));
}

TEST_F(TrainSources, ShowTheirWeightsAndEpochs) {
  const Ending ending = mixed("run", "--steps 8");
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, AllOf(HasSubstr(code_ + ": 1.5k tokens, weight 1, 25.0 %"), HasSubstr(text_ + ": "),
                                   HasSubstr("weight 3, 75.0 %")));
}

TEST_F(TrainSources, WithOtherWeightsAreOtherData) {
  ASSERT_EQ(mixed("run", "--steps 2").code, 0);
  sources_ = text_ + ":1," + code_ + ":1";
  const Ending ending = mixed("run", "--steps 4");
  EXPECT_EQ(ending.code, 2);
  EXPECT_THAT(ending.output,
              AllOf(HasSubstr("the training data  "), HasSubstr("of weight 3"), HasSubstr("of another run")));
}

TEST_F(TrainSources, SayWhatIsWrong) {
  sources_ = text_ + ":3," + code_ + ":0";
  EXPECT_THAT(mixed("run", "--steps 2").output, HasSubstr("is '0'; it must be a number above 0"));
  sources_ = text_ + ":3," + (folder_ / "none") + ":1";
  EXPECT_THAT(mixed("run", "--steps 2").output, HasSubstr("none' does not exist"));
  sources_ = text_ + ":1e9," + code_ + ":1";
  const Ending ending = mixed("run", "--steps 2");
  EXPECT_EQ(ending.code, 2);
  EXPECT_THAT(ending.output, HasSubstr("is less than 1 in 4096 of all weights"));
}

}  // namespace
