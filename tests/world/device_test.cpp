// Which rank computes where.
#include "world/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/message_of.h"

namespace fsdp::world {
namespace {

using ::testing::HasSubstr;

const torch::Device kCpu = torch::kCPU;

torch::Device gpu(int index) { return {torch::kCUDA, static_cast<torch::DeviceIndex>(index)}; }

TEST(ChooseDevice, RanksOfAHostTakeItsGpusInTurn) {
  for (const char* backend : {"auto", "nccl"}) {
    EXPECT_EQ(choose_device(backend, 0, 2), gpu(0));
    EXPECT_EQ(choose_device(backend, 1, 2), gpu(1));
    EXPECT_EQ(choose_device(backend, 2, 2), gpu(0));
  }
}

TEST(ChooseDevice, BackendsForTheCpuLeaveGpusAlone) {
  for (const char* backend : {"shm", "gloo", "hosts"}) EXPECT_EQ(choose_device(backend, 0, 2), kCpu);
}

TEST(ChooseDevice, WithoutGpusAutoTakesTheCpuAndNcclIsAnError) {
  EXPECT_EQ(choose_device("auto", 1, 0), kCpu);
  EXPECT_THAT(testing::message_of([] { choose_device("nccl", 0, 0); }), HasSubstr("found no GPU that CUDA can use"));
}

}  // namespace
}  // namespace fsdp::world
