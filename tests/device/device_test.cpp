// The tests' device itself.
#include "device/device.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <torch/cuda.h>
#include <torch/torch.h>
#include <unistd.h>

#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const torch::Device kDevice(torch::kCUDA, 0);

c10::impl::VirtualGuardImpl guard() { return c10::impl::VirtualGuardImpl(torch::kCUDA); }
c10::Stream new_stream() { return guard().getStreamFromGlobalPool(kDevice, false); }
torch::Tensor on_device(at::IntArrayRef sizes) { return torch::ones(sizes, kDevice); }

TEST(TestDevice, IsCudaForLibTorch) {
  EXPECT_TRUE(torch::cuda::is_available());
  EXPECT_EQ(torch::cuda::device_count(), 1);
  torch::nn::Linear linear(3, 4);
  linear->to(torch::kCUDA);
  EXPECT_EQ(linear->weight.device(), kDevice);
}

TEST(TestDevice, HasTheBitsOfTheCpu) {
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(17, 33), torch::nn::GELU(),
                              torch::nn::LayerNorm(torch::nn::LayerNormOptions({33})), torch::nn::Linear(33, 5));
  const torch::Tensor input = torch::randn({7, 17});
  model->forward(input).square().mean().backward();
  std::vector<torch::Tensor> expected;
  for (torch::Tensor& parameter : model->parameters()) {
    expected.push_back(parameter.grad());
    parameter.mutable_grad().reset();
  }
  model->to(kDevice);
  model->forward(input.to(kDevice)).square().mean().backward();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(model->parameters()[i].grad().cpu().equal(expected[i]));
}

TEST(TestDevice, NewMemoryIsNaN) { EXPECT_TRUE(torch::empty({9}, kDevice).isnan().all().item<bool>()); }

TEST(TestDevice, AHostThatReadsItsMemoryIsToldTheLine) {
  const auto result = run_process([] {
    const torch::Tensor tensor = on_device({5});
    return static_cast<int>(*static_cast<const float*>(tensor.const_data_ptr()));
  });
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV);
  EXPECT_THAT(result.output, HasSubstr("the host uses memory of the device, at 0x"));
  EXPECT_THAT(result.output, HasSubstr("outside of the device's operators"));
  EXPECT_THAT(result.output, HasSubstr("AHostThatReadsItsMemoryIsToldTheLine"));
}

TEST(TestDevice, TensorsOfTwoDevicesDoNotMix) {
  EXPECT_THROW(torch::mm(on_device({2, 2}), torch::ones({2, 2})), c10::Error);
}

TEST(TestDevice, LogsWhatEachStreamDoes) {
  const torch::Tensor a = on_device({4}), b = on_device({4});
  const c10::Stream other = new_stream();
  device::name_stream(other, "other");
  device::start_log();
  a.add_(b);
  {
    const c10::StreamGuard in_other(other);
    b.mul_(2);
  }
  EXPECT_EQ(device::counts("cuda:0 default").launches, 1);
  EXPECT_EQ(device::counts("other").launches, 1);
  EXPECT_EQ(device::counts().host_waits, 0);
  EXPECT_EQ(b.sum().item<float>(), 8);
  EXPECT_EQ(device::counts().host_waits, 1);
  device::stop_log();
  const std::vector<device::Event> log = device::log();
  ASSERT_GE(log.size(), 2u);
  EXPECT_EQ(log[0].what, "add");
  EXPECT_EQ(log[1].stream, "other");
  EXPECT_EQ(log[1].writes[0].begin, reinterpret_cast<uintptr_t>(b.const_data_ptr()));
}

// `b` is written on another stream than the one that wrote it.
std::vector<std::string> found_after(const std::function<void(const c10::Stream& other)>& wait) {
  const torch::Tensor a = on_device({4});
  const c10::Stream other = new_stream();
  torch::cuda::synchronize();
  device::start_log();
  a.add_(1);
  wait(other);
  {
    const c10::StreamGuard in_other(other);
    a.mul_(2);
  }
  torch::cuda::synchronize();
  device::stop_log();
  return device::missing_waits();
}

TEST(MissingWait, IsFoundAndNamesBothOperators) {
  const auto found = found_after([](const c10::Stream&) {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0], HasSubstr("add writes, on cuda:0 default"));
  EXPECT_THAT(found[0], HasSubstr("mul writes, on cuda:0 stream"));
  EXPECT_THAT(found[0], HasSubstr("found_after"));
}

TEST(MissingWait, IsNoneAfterAnEvent) {
  EXPECT_THAT(found_after([](const c10::Stream& other) {
                c10::Event event(torch::kCUDA);
                event.record(guard().getStream(kDevice));
                event.block(other);
              }),
              IsEmpty());
}

TEST(MissingWait, IsNoneAfterTheHostWaited) {
  EXPECT_THAT(found_after([](const c10::Stream&) { torch::cuda::synchronize(); }), IsEmpty());
  EXPECT_THAT(found_after([](const c10::Stream&) { on_device({1}).item(); }), IsEmpty());
}

TEST(MissingWait, OfAnEventRecordedTooEarlyIsFound) {
  c10::Event event(torch::kCUDA);
  event.record(guard().getStream(kDevice));
  EXPECT_EQ(found_after([&](const c10::Stream& other) { event.block(other); }).size(), 1u);
}

// A program that has the device preloaded ends so, a rank by _exit as well.
TEST(MissingWait, EndsAProgramThatIsChecked) {
  const ScratchDirectory scratch;
  const std::string file = scratch.path() / "report";
  for (const bool waits : {false, true}) {
    const auto result = run_process(
        [waits] {
          const torch::Tensor a = on_device({4});
          const c10::StreamGuard in_other(new_stream());
          if (waits) torch::cuda::synchronize();
          a.mul_(2);
          _exit(0);
          return 0;
        },
        {"FSDP_TEST_DEVICE_CHECK=" + file, "TORCH_READ_EARLY="});
    EXPECT_EQ(result.exit_code, waits ? 0 : 97) << result.output;
    if (!waits) EXPECT_THAT(result.output, HasSubstr("mul writes, on cuda:0 stream"));
    EXPECT_EQ(std::filesystem::remove(file), true);
  }
}

// Memory that another stream still reads goes to the next tensor of its own stream.
TEST(MissingWait, OfATensorThatIsFreedIsFoundUnlessItsStreamIsRecorded) {
  for (const bool records : {false, true}) {
    torch::cuda::synchronize();
    device::start_log();
    torch::Tensor a = on_device({1000});
    const c10::Stream other = new_stream();
    c10::Event event(torch::kCUDA);
    event.record(guard().getStream(kDevice));
    event.block(other);
    {
      const c10::StreamGuard in_other(other);
      const torch::Tensor b = a * 2;
      if (records) a.record_stream(other);
    }
    a.reset();
    const torch::Tensor c = on_device({1000});
    device::stop_log();
    EXPECT_EQ(device::missing_waits().size(), records ? 0u : 1u);
  }
}

// The host reads what an asynchronous copy writes.
TEST(PinnedMemory, IsHeldUntilTheHostHasWaited) {
  for (const bool waits : {false, true}) {
    const torch::Tensor from = on_device({5000});
    const torch::Tensor to = torch::empty({5000}, torch::TensorOptions().pinned_memory(true));
    EXPECT_TRUE(to.is_pinned());
    device::start_log();
    to.copy_(from, /*non_blocking=*/true);
    if (waits) guard().synchronizeDevice(0);
    EXPECT_EQ(to.sum().item<float>(), 5000);
    device::stop_log();
    const auto found = device::missing_waits();
    ASSERT_EQ(found.size(), waits ? 0u : 1u);
    if (!waits) EXPECT_THAT(found[0], HasSubstr("copy_ to the host"));
  }
}

TEST(PinnedMemory, IsNotWrittenWhileItIsCopied) {
  const torch::Tensor from = torch::ones({5000}, torch::TensorOptions().pinned_memory(true));
  device::start_log();
  const torch::Tensor to = from.to(kDevice, /*non_blocking=*/true);
  EXPECT_EQ(from.sum().item<float>(), 5000);
  EXPECT_THAT(device::missing_waits(), IsEmpty());
  from.zero_();
  device::stop_log();
  EXPECT_EQ(device::missing_waits().size(), 1u);
}

}  // namespace
}  // namespace fsdp::testing
