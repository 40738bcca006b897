// Steps on a mesh in time: beside the formulas of the schedules, the bytes of tensor parallelism, and simulations of
// all micro-batches.
#include "plan/mesh_step.h"

#include <gtest/gtest.h>

#include <random>

#include "plan/least_step.h"
#include "stages/schedules.h"
#include "stages/timing.h"

namespace fsdp::plan {
namespace {

// Without a network, and a host that costs nearly nothing.
Hardware quiet_machine() {
  return {.name = "quiet",
          .product_rate = 800e12,
          .wide_product_rate = 50e12,
          .processors = 132,
          .attention_forward_rate = 340e12,
          .attention_backward_rate = 270e12,
          .memory_bandwidth = 3e12,
          .local_bandwidth = 1e30,
          .network_bandwidth = 1e30};
}

Hardware slow_network() {
  Hardware hardware = quiet_machine();
  hardware.local_bandwidth = 100e9;
  hardware.network_bandwidth = 10e9;
  hardware.local_latency = hardware.host_latency = 1e-5;
  return hardware;
}

ShardedEngine quick_host() {
  ShardedEngine engine = sharded_engine("libfsdp");
  engine.launch_forward = engine.launch_backward = engine.update_host = 0;
  return engine;
}

struct MeshCase {
  MeshSizes sizes = {};
  const char* schedule = "OneForwardOneBackward";
  int stages_per_rank = 1;
  int64_t micro_batches = 8;
  bool slices = false;
  size_t strategy = 0;
};

constexpr int64_t kWidth = 2048, kSequence = 1024;

TransformerShape shape_of(int64_t layers, int64_t tensor) {
  return {.layers = layers,
          .width = kWidth,
          .heads = 16 / tensor,
          .key_value_heads = 16 / tensor,
          .head_width = 128,
          .mlp_width = 4 * kWidth / tensor,
          .vocabulary = 32'000 / tensor};
}

// Each stage has as many equal layers.
class EqualLayers {
 public:
  explicit EqualLayers(const MeshCase& one, int layers_of_stage = 2)
      : mesh_(mesh_of(one.sizes, std::vector<int>(one.sizes.pipeline * one.stages_per_rank, layers_of_stage),
                      one.schedule, one.micro_batches)),
        places_(one.sizes, std::max<int64_t>(1, ranks_of(one.sizes) / 8)),
        case_(one) {}

  MeshStep step() const {
    const int layers = mesh_.end_block(mesh_.stages() - 1);
    const TransformerShape shape = shape_of(layers, case_.sizes.tensor);
    const Block layer{.parameters = Unit(12, {.numel = shape.block_parameters() / 12}),
                      .is_layer = true,
                      .exchanges = layer_exchanges(2, 2, {.slices = case_.slices})};
    return {.run = {.mesh = mesh_,
                    .blocks = std::vector<Block>(static_cast<size_t>(layers), layer),
                    .sharding = sharding_of("full-shard", case_.sizes.data, 1, 0),
                    .message_bytes = 2.0 * kSequence * kWidth,
                    .tensors = {.ranks = case_.sizes.tensor, .bytes = 2.0 * kSequence * kWidth}},
            .model = {.shape = shape, .pass = {.sequence = kSequence, .has_wide_loss = false}},
            .strategy = case_.strategy};
  }
  MeshSeconds seconds(const Hardware& hardware) const { return mesh_seconds(step(), places_, quick_host(), hardware); }
  std::vector<BlockTimes> times(const Hardware& hardware) const {
    const MeshStep made = step();
    return block_times(made.run.blocks, made.model, made.run.tensors, tensor_ring(places_), quick_host(), hardware);
  }
  // The larger of the bounds that a search uses.
  double least(const Hardware& hardware) const {
    const LeastPipeline pipeline{.cuts = mesh_.cuts,
                                 .ranks = mesh_.sizes.pipeline,
                                 .micro_batches = case_.micro_batches,
                                 .puts_off_weights = mesh_.schedule_name == "ZeroBubble"};
    const MeshStep made = step();
    return std::max(least_pass_seconds(pipeline, times(hardware)),
                    least_reduction_seconds(pipeline, made.run.blocks, made.run.sharding.reduce_bytes,
                                            data_rings(places_, 0, made.run.sharding.group), quick_host(), hardware));
  }
  // The schedule with the times of the passes alone.
  stages::StageTiming timing(const Hardware& hardware) const {
    std::vector<stages::StageTimes> of_stage(mesh_.cuts.size());
    const std::vector<BlockTimes> all = times(hardware);
    for (size_t i = 0; i < all.size(); ++i) {
      stages::StageTimes& sum = of_stage[i / static_cast<size_t>(mesh_.cuts[0])];
      sum.forward += all[i].forward.device;
      sum.input_gradient += all[i].input_gradient().device;
      sum.weight_gradient += all[i].weight_gradient.device;
    }
    return stages::timing_of(mesh_.schedule, of_stage);
  }

 private:
  Mesh mesh_;
  MeshPlaces places_;
  MeshCase case_;
};

TEST(MeshStep, HasTheIdleShareOfTheFormulaForEqualStages) {
  for (const MeshCase& one :
       {MeshCase{.sizes = {.pipeline = 4}, .schedule = "OneAtATime"},
        MeshCase{.sizes = {.pipeline = 4}, .schedule = "AllForwardAllBackward"}, MeshCase{.sizes = {.pipeline = 4}},
        MeshCase{.sizes = {.pipeline = 8}, .micro_batches = 16},
        MeshCase{.sizes = {.pipeline = 4}, .schedule = "Interleaved", .stages_per_rank = 2}}) {
    const double formula = stages::idle_share_formula(one.schedule, static_cast<int>(one.sizes.pipeline),
                                                      one.stages_per_rank, static_cast<int>(one.micro_batches));
    // The first operator waits for its launch.
    EXPECT_NEAR(EqualLayers(one).seconds(quiet_machine()).idle_share, formula, 1e-4) << one.schedule;
  }
}

// Three passes of different times: the schedule in time has the answer.
TEST(MeshStep, HasTheIdleShareOfTheTimedScheduleWithZeroBubble) {
  const MeshCase one{.sizes = {.pipeline = 4}, .schedule = "ZeroBubble"};
  const EqualLayers layers(one);
  const MeshSeconds seconds = layers.seconds(quiet_machine());
  EXPECT_LT(seconds.idle_share, EqualLayers({.sizes = {.pipeline = 4}}).seconds(quiet_machine()).idle_share);
  EXPECT_NEAR(seconds.idle_share, layers.timing(quiet_machine()).idle_share, 1e-4);
}

TEST(MeshStep, ExchangesTakeTheTimeOfTheirBytes) {
  std::mt19937 random(1);
  Hardware hardware = quiet_machine();
  hardware.local_bandwidth = 1;  // a byte per second
  for (int i = 0; i < 100; ++i) {
    const DividedTensors tensors{.ranks = 1 << (1 + random() % 3),
                                 .parts = static_cast<int64_t>(1 + random() % 3),
                                 .bytes = static_cast<double>(1000 + random() % 1000)};
    const DividedPasses passes{.slices = random() % 2 == 0, .again = random() % 2 == 0};
    for (const PassExchanges& exchanges :
         {layer_exchanges(2 + random() % 3, 2, passes), lookup_exchanges(passes), head_exchanges(passes)}) {
      EXPECT_NEAR(exchange_seconds(exchanges.forward, tensors, {tensors.ranks, 1}, hardware) +
                      exchange_seconds(exchanges.backward, tensors, {tensors.ranks, 1}, hardware),
                  exchanged_bytes(exchanges.sum(), tensors), 1e-6);
    }
  }
}

// A step's exchanges are those of its traffic, in seconds, and none is hidden.
TEST(MeshStep, ExposesTheBytesOfTensorParallelism) {
  for (const bool slices : {false, true}) {
    const MeshCase one{.sizes = {.tensor = 4}, .micro_batches = 3, .slices = slices};
    const EqualLayers layers(one);
    Hardware hardware = quiet_machine();
    const double without = layers.seconds(hardware).step.step;
    hardware.local_bandwidth = 1e9;
    const MeshSeconds with = layers.seconds(hardware);
    const MeshPlaces places(one.sizes, 1);
    const double bytes = StageTraffic(layers.step().run, places, 0, 0).of(0).tensor.sum();
    EXPECT_NEAR((with.step.step - without) * 1e9 / bytes, 1, 1e-6);
    EXPECT_NEAR(with.step.exposed_communication * 1e9 / bytes, 1, 1e-6);
  }
}

TEST(MeshStep, SlicesOfTheSequenceShortenTheOperatorsBetweenDividedLayers) {
  const MeshCase whole{.sizes = {.tensor = 4}}, sliced{.sizes = {.tensor = 4}, .slices = true};
  const EqualLayers layers(sliced);
  MeshStep step = layers.step();
  step.model.pass.slices = 4;
  const double compute = mesh_seconds(step, MeshPlaces(sliced.sizes, 1), quick_host(), quiet_machine()).step.compute;
  EXPECT_LT(compute, EqualLayers(whole).seconds(quiet_machine()).step.compute);
}

// With equal stages nothing waits but for the first and the last micro-batch.
TEST(MeshStep, TakesTheLeastTimeOfItsPassesIfStagesAreEqual) {
  const EqualLayers layers({.sizes = {.pipeline = 4}});
  const Hardware hardware = quiet_machine();
  EXPECT_NEAR(layers.timing(hardware).makespan / layers.least(hardware), 1, 1e-9);
}

TEST(MeshStep, TakesAtLeastTheTimeOfItsPassesAndItsPartsAddUp) {
  std::mt19937 random(2);
  constexpr std::pair<const char*, int> kSchedules[] = {
      {"OneForwardOneBackward", 1}, {"Interleaved", 2}, {"ZeroBubble", 1}, {"AllForwardAllBackward", 1}};
  for (int i = 0; i < 24; ++i) {
    const auto& [schedule, stages] = kSchedules[random() % 4];
    const MeshCase one{
        .sizes = {.data = 1 << (random() % 3), .pipeline = 1 << (random() % 3), .tensor = 1 << (random() % 2)},
        .schedule = schedule,
        .stages_per_rank = stages,
        .micro_batches = static_cast<int64_t>(1 + random() % 12),
        .slices = random() % 2 == 0,
        .strategy = random() % 3};
    const EqualLayers layers(one);
    const StepSeconds step = layers.seconds(slow_network()).step;
    EXPECT_GE(step.step * (1 + 1e-9), layers.least(slow_network())) << i;
    EXPECT_NEAR(step.compute + step.exposed_communication + step.idle, step.step, 1e-6 * step.step) << i;
    EXPECT_GE(step.step, layers.seconds(quiet_machine()).step.step) << i;
  }
}

// 16 micro-batches are simulated, and of 20 the first ones alone.
TEST(MeshStep, GoesOnAsItsLastMicroBatches) {
  for (const char* schedule : {"OneForwardOneBackward", "ZeroBubble"}) {
    const auto seconds = [&](int64_t micro_batches) {
      const MeshCase one{.sizes = {.data = 2, .pipeline = 4}, .schedule = schedule, .micro_batches = micro_batches};
      return EqualLayers(one).seconds(slow_network()).step.step;
    };
    EXPECT_NEAR((seconds(20) - seconds(16)) / (seconds(16) - seconds(12)), 1, 1e-2) << schedule;
  }
}

TEST(MeshStep, MessagesBetweenHostsTakeLonger) {
  const Mesh mesh = mesh_of({.data = 1, .pipeline = 4, .tensor = 4}, {1, 1, 1, 1}, "OneForwardOneBackward", 4);
  const Hardware hardware = slow_network();
  const std::vector<double> seconds = stage_message_seconds(mesh, MeshPlaces(mesh.sizes, 2), 1e6, hardware);
  EXPECT_EQ(seconds, (std::vector{message_seconds(1e6, true, hardware), message_seconds(1e6, false, hardware),
                                  message_seconds(1e6, true, hardware)}));
  EXPECT_NEAR(seconds[1], 1e6 / 10e9 + 2e-5, 1e-12);
}

}  // namespace
}  // namespace fsdp::plan
