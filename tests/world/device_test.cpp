// Which rank computes where.
#include "world/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "fsdp/world.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "world/local_rendezvous.h"
#include "world/rendezvous.h"
#include "world/state.h"

namespace fsdp::world {
namespace {

using ::testing::AllOf;
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

TEST(PlaceOfGpu, RanksOfAMachineWithOneGpuShareIt) {
  EXPECT_EQ(place_of_gpu("nccl", "machine", "gpu", nullptr), place_of_gpu("nccl", "machine", "gpu", ""));
  EXPECT_NE(place_of_gpu("nccl", "machine", "gpu", nullptr), place_of_gpu("nccl", "machine", "other gpu", nullptr));
  EXPECT_EQ(place_of_gpu("nccl", "machine", "gpu", "host"), place_of_gpu("nccl", "machine", "gpu", "host"));
}

// As NCCL sees it. By name alone: auto goes through the host's memory, which is faster.
TEST(PlaceOfGpu, RanksWithANcclHostEachDoNotShareOne) {
  EXPECT_NE(place_of_gpu("nccl", "machine", "gpu", "a"), place_of_gpu("nccl", "machine", "gpu", "b"));
  EXPECT_EQ(place_of_gpu("auto", "machine", "gpu", "a"), place_of_gpu("auto", "machine", "gpu", "b"));
}

// Two hosts of one rank each, one of them with a device of another kind. Neither waits until the timeout.
TEST(ChooseDevice, HostsOfDifferentKindsOfDevicesAreToldSoAtOnce) {
  const files::Descriptor file = make_anonymous_file();
  testing::run_ranks(2, [&](World& world) {
    constexpr auto timeout = std::chrono::minutes(5);
    const torch::Device device = world.rank() == 0 ? torch::kMeta : torch::kCPU;
    const auto store = open_file_store(file, world.size());
    EXPECT_THAT(testing::message_of<Error>(
                    [&] { State({.rank = world.rank(), .size = 2}, "auto", timeout, store, {}, device); }),
                AllOf(HasSubstr("meta on host"), HasSubstr("(rank 0); cpu on host"), HasSubstr("(rank 1)")));
    world.barrier();  // the store goes with the last of them
  });
}

TEST(ChooseDevice, AHostWithoutAGpuThatWantsOneIsNamedOnTheOthers) {
  const files::Descriptor file = make_anonymous_file();
  testing::run_ranks(2, [&](World& world) {
    constexpr auto timeout = std::chrono::minutes(5);
    const bool here = world.rank() == 0;
    const auto device = here ? std::optional<torch::Device>(torch::kMeta) : std::nullopt;
    const auto store = open_file_store(file, world.size());
    EXPECT_THAT(testing::message_of<Error>(
                    [&] { State({.rank = world.rank(), .size = 2}, "nccl", timeout, store, {}, device); }),
                HasSubstr(here ? "none on host" : "found no GPU that CUDA can use"));
    world.barrier();
  });
}

}  // namespace
}  // namespace fsdp::world
