#include "training/pipeline_events.h"

#include <gtest/gtest.h>

namespace trainer {
namespace {

TEST(PipelineEvents, NameCutsThatAreFaster) {
  fsdp::PipelineReport report{.cuts = {2, 2}, .costs = {1, 1, 1, 3}, .measured_cuts = {3, 1}};
  EXPECT_EQ(better_cuts_text(report),
            "stages of 2*2 blocks: by the times of the first step the slowest one takes 25 % less time with --stages "
            "3,1");
  report.measured_cuts = report.cuts;
  EXPECT_EQ(better_cuts_text(report), "");
  EXPECT_EQ(better_cuts_text({}), "");
}

TEST(PipelineEvents, AreSilentAboutCutsThatAreHardlyFaster) {
  EXPECT_EQ(better_cuts_text({.cuts = {2, 2}, .costs = {1, 1, 1, 1.04}, .measured_cuts = {3, 1}}), "");
}

TEST(PipelineEvents, CompareIdleTimeWithItsFormula) {
  EXPECT_EQ(
      idle_text({.micro_batches = 4, .idle_share = 0.314, .idle_share_formula = 0.2}, "zero-bubble"),
      "ranks of the pipeline are idle for 31 % of a step; 20 % follow from zero-bubble and 4 micro-batches, if all "
      "stages take equally long");
}

}  // namespace
}  // namespace trainer
