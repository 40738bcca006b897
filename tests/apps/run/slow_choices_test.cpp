#include "run/slow_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Processor kTwoCores{.cores = 4, .usable = 2, .features = {"avx2"}};

RunOptions with_ranks(int64_t ranks) {
  RunOptions options;
  options.ranks = ranks;
  return options;
}

TEST(SlowChoices, AreMoreRanksThanCores) {
  EXPECT_THAT(slow_choices(with_ranks(2), 2, false, kTwoCores), IsEmpty());
  EXPECT_THAT(
      slow_choices(with_ranks(4), 4, false, kTwoCores),
      ElementsAre("4 ranks share 2 cores: they wait for each other. The same steps take less time with --ranks 2 "
                  "--micro-batches 2."));
  EXPECT_THAT(slow_choices(with_ranks(3), 3, false, kTwoCores), ElementsAre(HasSubstr("Use fewer --ranks.")));
  Processor half = kTwoCores;
  half.quota = 0.5;
  EXPECT_THAT(slow_choices(with_ranks(2), 2, false, half), ElementsAre(HasSubstr("2 ranks share 1 core:")));
}

TEST(SlowChoices, CountAllCoresUnderALauncher) {
  EXPECT_THAT(slow_choices(with_ranks(8), 4, true, kTwoCores), IsEmpty());
  EXPECT_THAT(slow_choices(with_ranks(16), 8, true, kTwoCores),
              ElementsAre("8 ranks share 4 cores: they wait for each other. Use fewer --ranks."));
  EXPECT_THAT(slow_choices(with_ranks(16), 8, true, {}), IsEmpty());  // nothing is known
}

TEST(SlowChoices, AreFewerMicroBatchesThanStages) {
  RunOptions options = with_ranks(2);
  options.pipeline_parallel = 2;
  EXPECT_THAT(slow_choices(options, 2, false, kTwoCores),
              ElementsAre(HasSubstr("a pipeline of 2 ranks has 1 micro-batch in a step")));
  options.micro_batches = 2;
  EXPECT_THAT(slow_choices(options, 2, false, kTwoCores), IsEmpty());
}

TEST(SlowChoices, AreBf16WithoutInstructions) {
  RunOptions options;
  options.param_dtype = "bf16";
  EXPECT_THAT(
      slow_choices(options, 1, false, kTwoCores),
      ElementsAre(HasSubstr("has no instructions for bf16: --param-dtype bf16 saves memory here, and no time.")));
  Processor modern = kTwoCores;
  modern.features.emplace_back("amx_bf16");
  EXPECT_THAT(slow_choices(options, 1, false, modern), IsEmpty());
  modern.features.clear();  // the kernel does not say
  EXPECT_THAT(slow_choices(options, 1, false, modern), IsEmpty());
}

}  // namespace
}  // namespace trainer
