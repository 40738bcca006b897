// A wait that is left out in any part of a step is found, and the report names what it is between.
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <optional>
#include <set>

#include "device/device.h"
#include "device/on_streams.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"
#include "support/variable.h"

namespace fsdp {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing_models::TestModel;

const std::string kComputing = "cuda:0 default";
using Found = std::vector<std::string>;
using LeftOut = std::optional<std::pair<std::string, std::string>>;  // who waits, and for whom

// A GPT that is trained step by step.
struct Stepping {
  Stepping(World& world, const Options& options)
      : world(world),
        sharded(options.cpu_offload ? shard(*model.module, world, options)
                                    : testing::shard_on_streams(*model.module, world, options)) {
    step();
  }
  void step() {
    testing_models::train(model, sharded, world, {.steps = 1, .micro_batches = world.size(), .clip = 0.05});
  }
  // What is found in one more step, without one kind of wait.
  Found found_without(const LeftOut& left_out) {
    if (left_out) testing::device::leave_out_waits(left_out->first, left_out->second);
    testing::device::start_log();
    step();
    testing::device::stop_log();
    testing::device::leave_out_no_waits();
    return testing::device::missing_waits();
  }

  World& world;
  testing_models::OnDevice data{world.device()};
  TestModel model = testing::on_device(testing_models::make_gpt(), world.device());
  ShardedModel sharded;
};

void expect_found(const LeftOut& left_out, const std::string& one, const std::string& other) {
  testing::run_rank_processes(2, [=](World& world) {
    Stepping stepping(world, {});
    EXPECT_THAT(stepping.found_without({}), IsEmpty());
    EXPECT_THAT(stepping.found_without(left_out), Contains(AllOf(HasSubstr(one), HasSubstr(other))));
  });
}

// A layer computes before its parameters are there.
TEST(LeftOutWait, OfAGatherIsFound) {
  expect_found({{kComputing, "everyone"}}, "all_gather writes, on everyone", "reads, on cuda:0 default");
}

// A buffer is gathered into again while the layer before computes with it.
TEST(LeftOutWait, OfAReleaseIsFound) {
  expect_found({{"everyone", kComputing}}, ", on cuda:0 default", "all_gather writes, on everyone");
}

// Gradients are sent before they are computed, and sums are taken before they have arrived.
TEST(LeftOutWait, OfAReductionIsFound) {
  expect_found({{"reduce", kComputing}}, "writes, on cuda:0 default", "reduce_scatter");
  expect_found({{kComputing, "reduce"}}, "reduce_scatter writes, on reduce", "on cuda:0 default");
}

// A shard is gathered before the optimizer has written it.
TEST(LeftOutWait, OfAStepIsFound) {
  expect_found({{"everyone", kComputing}}, "_fused_adamw_ writes, on cuda:0 default", "all_gather reads, on everyone");
}

// Whatever streams there are: those of offload, for one. Each wait between two streams that training makes is needed.
void expect_every_wait_is_needed(World& world, const Options& options) {
  using Kind = testing::device::Event::Kind;
  Stepping stepping(world, options);
  EXPECT_THAT(stepping.found_without({}), IsEmpty());
  std::set<std::pair<std::string, std::string>> pairs;
  for (const auto& event : testing::device::log())
    if (event.kind == Kind::StreamWait) pairs.emplace(event.stream, event.other);
  EXPECT_GE(pairs.size(), 3u);
  for (const auto& pair : pairs)
    EXPECT_THAT(stepping.found_without(pair), Not(IsEmpty())) << pair.first << " waits for " << pair.second;
}

TEST(LeftOutWait, OfAnyTwoStreamsIsFound) {
  testing::run_rank_processes(2, [](World& world) { expect_every_wait_is_needed(world, {}); });
}

TEST(LeftOutWait, OfOffloadedActivationsIsFound) {
  testing::run_rank_processes(2, [](World& world) {
    expect_every_wait_is_needed(world, {.offload_activations = true, .offload_activations_from = 0});
  });
}

// The host waits for gradients too, before it adds them up.
TEST(LeftOutWait, OfOffloadedShardsIsFound) {
  testing::run_rank_processes(2, [](World& world) {
    expect_every_wait_is_needed(world, {.cpu_offload = true});
    Stepping stepping(world, {.cpu_offload = true});
    EXPECT_THAT(stepping.found_without({{"host", "cuda:0 stream"}}),
                Contains(HasSubstr("the host uses pinned memory")));
  });
}

// A gather waits for the copy of the shard, and a copy to the host for the reduction.
TEST(LeftOutWait, OfShardsOffloadedOverNcclIsFound) {
  const testing::Variable devices("FSDP_TEST_DEVICES", "2");
  testing::run_rank_processes(2, [](World& world) {
    expect_every_wait_is_needed(world, {.cpu_offload = true});
    Stepping stepping(world, {.cpu_offload = true});
    EXPECT_THAT(stepping.found_without({{"host", world.device().str() + " stream"}}),
                Contains(HasSubstr("the host uses pinned memory")));
  });
}

// An optimizer that steps on a stream of its own, and does not wait for the backward.
TEST(LeftOutWait, OfAStepOnAnotherStreamIsFound) {
  testing::run_rank_processes(1, [](World& world) {
    const testing_models::OnDevice on_device(world.device());
    const TestModel model = testing::on_device(testing_models::make_gpt(), world.device());
    ShardedModel sharded = shard(*model.module, world);
    AdamW optimizer(sharded);
    testing::device::start_log();
    model.loss(0).backward();
    {
      const c10::impl::VirtualGuardImpl guard(torch::kCUDA);
      const c10::StreamGuard other(guard.getStreamFromGlobalPool(world.device()));
      optimizer.step();
    }
    testing::device::stop_log();
    EXPECT_THAT(testing::device::missing_waits(), Contains(HasSubstr("_fused_adamw_ writes, on cuda:0 stream")));
  });
}

// What is offloaded: the host uses the bytes before they have come.
TEST(LeftOutWait, OfAnOffloadToTheHostIsFound) {
  const torch::Tensor on_device = torch::ones({5000}, torch::kCUDA);
  for (const bool left_out : {false, true}) {
    const torch::Tensor host = torch::empty({5000}, torch::TensorOptions().pinned_memory(true));
    if (left_out) testing::device::leave_out_waits("host", kComputing);
    testing::device::start_log();
    host.copy_(on_device, /*non_blocking=*/true);
    c10::impl::VirtualGuardImpl(torch::kCUDA).synchronizeStream(c10::Stream(c10::Stream::DEFAULT, on_device.device()));
    EXPECT_EQ(host.sum().item<float>(), 5000);
    testing::device::stop_log();
    testing::device::leave_out_no_waits();
    EXPECT_EQ(testing::device::missing_waits().size(), left_out ? 1u : 0u);
  }
}

}  // namespace
}  // namespace fsdp
