// What a step queues on a device, and how often the host waits for it: beside a plain step, and per unit.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "api/shard_over.h"
#include "device/device.h"
#include "device/process_group.h"
#include "support/device_over_gloo.h"
#include "support/run_ranks.h"

namespace fsdp::step_counts {
namespace {

namespace device = fsdp::testing::device;
using fsdp::testing::run_rank_processes;
using ::testing::Each;
using ::testing::IsEmpty;

constexpr int kUnits = 4;

struct LayerImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }

  torch::nn::LayerNorm norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({96})));
  torch::nn::Linear up = register_module("up", torch::nn::Linear(96, 161));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(161, 96));
};
TORCH_MODULE(Layer);

torch::nn::Sequential make_layers(const torch::Device& on) {
  torch::manual_seed(1);
  torch::nn::Sequential layers{Layer(), Layer(), Layer(), Layer()};
  layers->to(on);
  return layers;
}

torch::Tensor loss_of(torch::nn::Sequential& layers, const World& world, int step) {
  auto random = at::detail::createCPUGenerator(static_cast<uint64_t>(step * world.size() + world.rank()));
  const torch::Tensor input = torch::randn({16, 96}, random).to(world.device());
  return (layers->forward(input).to(torch::kFloat32) - input.roll(1, 1)).square().mean();
}

// Groups whose gathers and reductions are on streams of their own, as with NCCL.
std::unique_ptr<collectives::Group> groups_of_streams(World& world) {
  return testing::make_device_group_over_gloo(world, device::make_process_group);
}

ShardedModel shard_layers(torch::nn::Sequential& layers, World& world, Options options) {
  options.units = units_of<LayerImpl>();
  if (world.size() == 1) return shard(*layers, world, options);
  return shard_over([&] { return groups_of_streams(world); }, *layers, world, options);
}

Options bf16(Options options = {}) {
  options.mixed_precision.param_dtype = torch::kBFloat16;
  return options;
}

struct Trained {
  device::Counts third;  // of the third step, from the end of its backward to the end of the update
  std::vector<torch::Tensor> weights, norms;  // on the CPU
};

// Three steps, each of which ends as `update` does it.
template <typename MakeOptimizer, typename Update>
Trained train_layers(World& world, const Options& options, MakeOptimizer make_optimizer, Update update) {
  auto layers = make_layers(world.device());
  ShardedModel sharded = shard_layers(layers, world, options);
  auto optimizer = make_optimizer(sharded);
  Trained trained;
  for (int step = 0; step < 3; ++step) {
    loss_of(layers, world, step).backward();
    device::start_log();
    const torch::Tensor norm = update(sharded, optimizer);
    trained.third = device::counts();
    device::stop_log();
    EXPECT_THAT(device::missing_waits(), IsEmpty());
    optimizer.zero_grad();
    if (norm.defined()) trained.norms.push_back(norm.cpu());
  }
  for (const auto& [name, weight] : sharded.full_state()) trained.weights.push_back(weight.cpu());
  return trained;
}

AdamW make_adamw(ShardedModel& sharded) { return AdamW(sharded, {.lr = 1e-2}); }
torch::Tensor only_steps(ShardedModel&, Optimizer& optimizer) {
  optimizer.step();
  return {};
}
torch::Tensor clips(ShardedModel& sharded, Optimizer& optimizer) {
  const double norm = sharded.clip_grad_norm_(0.05);
  optimizer.step();
  return torch::full({}, norm, torch::kFloat64);
}
torch::Tensor clips_async(ShardedModel& sharded, Optimizer& optimizer) {
  const torch::Tensor norm = sharded.clip_grad_norm_async_(0.05);
  optimizer.step();
  return norm;
}

void expect_equal(const Trained& a, const Trained& b) {
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (size_t i = 0; i < a.weights.size(); ++i) EXPECT_TRUE(a.weights[i].equal(b.weights[i])) << i;
  ASSERT_EQ(a.norms.size(), b.norms.size());
  for (size_t i = 0; i < a.norms.size(); ++i) EXPECT_TRUE(a.norms[i].equal(b.norms[i])) << i;
}

class StepCounts : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, StepCounts, ::testing::Values(1, 2));

TEST_P(StepCounts, APlainStepWaitsForNothing) {
  run_rank_processes(GetParam(), [](World& world) {
    const device::Counts counts = train_layers(world, bf16(), make_adamw, only_steps).third;
    EXPECT_EQ(counts.host_waits, 0);
    // Per unit: the factor of the ranks, the counts of steps, the update, and a cast for each run of pieces.
    EXPECT_LE(counts.launches, 5 * kUnits);
  });
}

// Whatever the number of units, but for one multiplication of each unit's gradients.
TEST_P(StepCounts, ClippingWaitsOnceAndAsyncNever) {
  run_rank_processes(GetParam(), [](World& world) {
    const Trained plain = train_layers(world, bf16(), make_adamw, only_steps);
    const Trained clipped = train_layers(world, bf16(), make_adamw, clips);
    const Trained async = train_layers(world, bf16(), make_adamw, clips_async);
    EXPECT_EQ(clipped.third.host_waits, 1);
    EXPECT_EQ(async.third.host_waits, 0);
    EXPECT_LE(clipped.third.launches, plain.third.launches + kUnits + 65);
    EXPECT_LE(async.third.launches, plain.third.launches + kUnits + 145);
    expect_equal(clipped, async);
    EXPECT_FALSE(plain.weights[0].equal(clipped.weights[0]));
  });
}

TEST_P(StepCounts, AScaledStepWaitsOnce) {
  run_rank_processes(GetParam(), [](World& world) {
    const auto scaled = [](ShardedModel& sharded, Optimizer& optimizer) {
      GradScaler scaler({.init_scale = 2});
      EXPECT_TRUE(scaler.step(optimizer));
      scaler.update();
      return sharded.parameters().empty() ? torch::zeros({}) : torch::Tensor();
    };
    EXPECT_EQ(train_layers(world, bf16(), make_adamw, scaled).third.host_waits, 1);
  });
}

TEST_P(StepCounts, SgdWithMomentumWaitsForNothing) {
  run_rank_processes(GetParam(), [](World& world) {
    const auto make_sgd = [](ShardedModel& sharded) { return SGD(sharded, {.lr = 1e-2, .momentum = 0.9}); };
    const device::Counts counts = train_layers(world, bf16(), make_sgd, only_steps).third;
    EXPECT_EQ(counts.host_waits, 0);
    EXPECT_LE(counts.launches, 4 * kUnits);
  });
}

// A norm below max_norm, one that is infinite, and gradients that are not finite.
TEST_P(StepCounts, AsyncClippingHasTheBitsOfClipping) {
  run_rank_processes(GetParam(), [](World& world) {
    for (const double max_norm : {0.0, 1e-3, 1e9, std::numeric_limits<double>::infinity()}) {
      for (const double norm_type : {2.0, std::numeric_limits<double>::infinity()}) {
        const auto waiting = [&](ShardedModel& sharded, Optimizer& optimizer) {
          const double norm = sharded.clip_grad_norm_(max_norm, norm_type);
          optimizer.step();
          return torch::full({}, norm, torch::kFloat64);
        };
        const auto async = [&](ShardedModel& sharded, Optimizer& optimizer) {
          const torch::Tensor norm = sharded.clip_grad_norm_async_(max_norm, norm_type);
          EXPECT_EQ(norm.device(), world.device());
          optimizer.step();
          return norm;
        };
        expect_equal(train_layers(world, {}, make_adamw, waiting), train_layers(world, {}, make_adamw, async));
      }
    }
  });
}

// Of a loss over 64 rows and 1,000 entries, and its backward.
int64_t launches_of_loss(World& world, const LinearCrossEntropyOptions& options) {
  const torch::Tensor hidden = torch::ones({64, 32}).to(world.device()).requires_grad_();
  const torch::Tensor weight = torch::ones({1000, 32}).to(world.device()).requires_grad_();
  const torch::Tensor targets = torch::zeros({64}, torch::kLong).to(world.device());
  device::start_log();
  linear_cross_entropy(hidden, weight, targets, options).backward();
  device::stop_log();
  return device::counts().launches;
}

// Short kernels would leave the device idle.
TEST(LossCounts, TheLossIsComputedInChunksForTheDevice) {
  run_rank_processes(1, [](World& world) {
    const int64_t launches = launches_of_loss(world, {});
    EXPECT_EQ(launches_of_loss(world, {.chunk_bytes = 64 * 16 * 4}), launches);
    EXPECT_GT(launches_of_loss(world, {.gpu_chunk_bytes = 64 * 16 * 4}), 2 * launches);
  });
}

int64_t count_of(const std::vector<device::Event>& events, const std::string& what) {
  return std::ranges::count_if(events, [&](const device::Event& event) {
    return event.kind == device::Event::Kind::Launch && event.what.find(what) != std::string::npos;
  });
}

// bf16 parameters, fp32 reductions: each gradient is of another dtype than its place.
TEST_P(StepCounts, GradientsReachTheirPlacesByOneKernelPerUnit) {
  run_rank_processes(GetParam(), [](World& world) {
    auto layers = make_layers(world.device());
    ShardedModel sharded = shard_layers(layers, world, bf16());
    AdamW optimizer(sharded);
    for (int step = 0; step < 2; ++step) {
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        const torch::Tensor loss = loss_of(layers, world, 2 * step + micro_batch);
        device::start_log();
        loss.backward();
        device::stop_log();
        EXPECT_EQ(count_of(device::log(), "_foreach_copy_"), kUnits);
        if (world.size() == 1) EXPECT_EQ(count_of(device::log(), "_foreach_add_"), micro_batch == 0 ? 0 : kUnits);
        EXPECT_THAT(device::missing_waits(), IsEmpty());
      }
      optimizer.step();
      optimizer.zero_grad();
    }
  });
}

}  // namespace
}  // namespace fsdp::step_counts
