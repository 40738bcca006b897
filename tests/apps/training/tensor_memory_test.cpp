#include "training/tensor_memory.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace trainer {
namespace {

constexpr int64_t kNumel = 1 << 18, kBytes = 4 * kNumel;

TEST(TensorMemory, IsTheMostThatAStepHeldBeyondItsBeginning) {
  TensorMemory memory(torch::kCPU);
  const torch::Tensor before = torch::ones({kNumel});
  memory.begin_step();
  EXPECT_EQ(memory.peak_bytes(), 0);
  { const torch::Tensor first = torch::ones({kNumel}), second = torch::ones({kNumel}); }
  const torch::Tensor third = torch::ones({kNumel});
  EXPECT_EQ(memory.peak_bytes(), 2 * kBytes);
  memory.begin_step();
  EXPECT_EQ(memory.peak_bytes(), 0);
}

TEST(TensorMemory, IsTheMostSinceTheLastLook) {
  TensorMemory memory(torch::kCPU);
  const torch::Tensor before = torch::ones({kNumel});
  memory.begin_step();
  memory.take_peak();
  { const torch::Tensor first = torch::ones({kNumel}), second = torch::ones({kNumel}); }
  const torch::Tensor third = torch::ones({kNumel});
  EXPECT_EQ(memory.take_peak(), 2 * kBytes);
  EXPECT_EQ(memory.take_peak(), kBytes) << "what is there counts";
  EXPECT_EQ(memory.peak_bytes(), 2 * kBytes) << "that of the step stays";
}

TEST(TensorMemory, CountsWhatBackwardAllocates) {
  TensorMemory memory(torch::kCPU);
  const torch::Tensor weight = torch::ones({kNumel}, torch::requires_grad());
  memory.begin_step();
  const torch::Tensor loss = (weight * weight).sum();
  const int64_t of_forward = memory.peak_bytes();
  EXPECT_GE(of_forward, kBytes);
  loss.backward();
  EXPECT_GT(memory.peak_bytes(), of_forward);  // two products, where forward has one
}

TEST(TensorMemory, CountsNothingOfOtherDevices) {
  TensorMemory memory{c10::Device(torch::kMeta)};
  memory.begin_step();
  const torch::Tensor tensor = torch::ones({kNumel});
  EXPECT_EQ(memory.peak_bytes(), 0);
}

}  // namespace
}  // namespace trainer
