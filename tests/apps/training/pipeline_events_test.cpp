#include "training/pipeline_events.h"

#include <gtest/gtest.h>

namespace trainer {
namespace {

fsdp::PipelineReport report_of(std::vector<int> cuts, std::vector<double> costs, std::vector<int> measured_cuts) {
  fsdp::PipelineReport report;
  report.cuts = std::move(cuts);
  report.costs = std::move(costs);
  report.measured_cuts = std::move(measured_cuts);
  return report;
}

TEST(PipelineEvents, NameCutsThatAreFaster) {
  EXPECT_EQ(better_cuts_text(report_of({2, 2}, {1, 1, 1, 3}, {3, 1})),
            "stages of 2*2 blocks: by the times of the first step the slowest one takes 25 % less time with --stages "
            "3,1");
}

TEST(PipelineEvents, AreSilentAboutCutsThatAreHardlyFaster) {
  EXPECT_EQ(better_cuts_text(report_of({2, 2}, {1, 1, 1, 1.04}, {3, 1})), "");
  EXPECT_EQ(better_cuts_text(report_of({2, 2}, {1, 1, 1, 3}, {2, 2})), "");
  EXPECT_EQ(better_cuts_text({}), "");
}

TEST(PipelineEvents, CompareIdleTimeWithItsFormula) {
  fsdp::PipelineReport report;
  report.micro_batches = 4;
  report.idle_share = 0.314;
  report.idle_share_formula = 0.2;
  EXPECT_EQ(idle_text(report, 0.308, "zero-bubble"),
            "a rank of the pipeline is idle for 31 % of a step. The formula of zero-bubble for 4 micro-batches and "
            "stages that take equally long gives 20 %, and passes that take as long as these did give 31 %");
}

}  // namespace
}  // namespace trainer
