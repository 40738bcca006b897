#include "planning/measured_passes.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace trainer {
namespace {

TEST(MeasuredPasses, AreOfLayersAndOfTheRest) {
  RunOptions options;
  options.batch = 1;
  options.model.context = options.model.width = 16;
  options.model.heads = 2;
  options.model.layers = 1000000;  // of which two are made
  for (const char* recomputed : {"none", "all", "500000"}) {
    options.activation_checkpoint = recomputed;
    torch::manual_seed(7);
    const auto passes = measured_passes(torch::kCPU, options);
    ASSERT_TRUE(passes);
    EXPECT_GE(passes->layer, 0);
    EXPECT_GT(passes->layer + passes->rest, 0);
    EXPECT_GT(passes->update_of_parameter, 0);
    const torch::Tensor drawn = torch::rand({3});
    torch::manual_seed(7);
    EXPECT_TRUE(torch::equal(torch::rand({3}), drawn));
  }
}

}  // namespace
}  // namespace trainer
