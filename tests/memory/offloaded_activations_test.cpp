// Options::offload_activations: the bits of one process, what is reported, and what stands in the way.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "support/bytes_on_disk.h"
#include "support/message_of.h"
#include "support/required.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/small_disk.h"
#include "support/train_sharded.h"

namespace fsdp::offloaded_activations {
namespace {

namespace fs = std::filesystem;
namespace nn = torch::nn;

using fsdp::testing::bytes_on_disk;
using fsdp::testing::Job;
using fsdp::testing::message_of;
using fsdp::testing::run_rank_processes;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_models::differences;
using testing_models::make_gpt;
using testing_models::TestModel;
using testing_models::Training;
using testing_models::Weights;

// Every tensor, however small.
Options activations_in(const fs::path& folder, Options options = {}) {
  options.offload_directory = folder;
  options.offload = Offload::Nothing;
  options.offload_activations = true;
  options.offload_activations_from = 0;
  return options;
}

class OffloadedActivations : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(Jobs, OffloadedActivations, ::testing::Values(Job{1}, Job{2, "shm"}, Job{3, "gloo"}),
                         ::testing::PrintToStringParamName());

TEST_P(OffloadedActivations, HaveTheBitsOfOneProcessWithEveryStrategy) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    for (const bool bf16 : {false, true}) {
      Training training{.steps = 3, .micro_batches = 6, .clip = 0.05};
      if (bf16) training.param_dtype = torch::kBFloat16;
      const Weights expected = testing_models::train_unsharded(make_gpt(), training);
      for (const auto& [name, options] : testing_models::every_strategy(world.size())) {
        SCOPED_TRACE(name + (bf16 ? ", bf16" : ", fp32"));
        Options in_files = activations_in(scratch.path(), options);
        in_files.mixed_precision.param_dtype = training.param_dtype;
        const TestModel model = make_gpt();
        auto sharded = shard(*model.module, world, in_files);
        testing_models::train(model, sharded, world, training);
        EXPECT_THAT(differences(expected, testing_models::whole_weights(*model.module, sharded)), IsEmpty());
        EXPECT_GT(sharded.memory().peak_offloaded_activation_bytes, 0);
      }
    }
  });
}

constexpr int64_t kTanhWidth = 64, kTanhRows = 32, kTanhLayers = 6, kFloatBytes = 4;

// Linear layers with tanh between them: of each its input is kept, and tanh's result, which is the next one's input.
nn::Sequential make_tanh_layers() {
  nn::Sequential layers;
  for (int i = 0; i < kTanhLayers; ++i) layers->push_back(nn::Linear(kTanhWidth, kTanhWidth));
  return layers;
}
torch::Tensor loss_of_tanh(nn::Sequential& layers, torch::Tensor x) {
  for (auto& layer : *layers) x = torch::tanh(layer.forward<torch::Tensor>(x));
  return x.sum();
}

TEST_P(OffloadedActivations, AreReportedApart) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    constexpr int64_t kAll = (kTanhLayers + 1) * kTanhRows * kTanhWidth * kFloatBytes;
    for (const bool offloads : {false, true}) {
      nn::Sequential layers = make_tanh_layers();
      Options options{.units = units_of<nn::LinearImpl>()};
      if (offloads) options = activations_in(scratch.path(), options);
      auto sharded = shard(*layers, world, options);
      AdamW optimizer(sharded);
      for (int step = 0; step < 3; ++step) {
        torch::Tensor loss = loss_of_tanh(layers, torch::full({kTanhRows, kTanhWidth}, 0.1));
        MemoryReport report = sharded.memory();
        EXPECT_EQ(report.activation_bytes, offloads ? 0 : kAll);
        EXPECT_EQ(report.offloaded_activation_bytes, offloads ? kAll : 0);
        loss.backward();
        report = sharded.memory();
        EXPECT_EQ(report.activation_bytes + report.offloaded_activation_bytes, 0);
        EXPECT_EQ(report.peak_offloaded_activation_bytes, offloads ? kAll : 0);
        EXPECT_EQ(report.offloaded_bytes, 0);
        optimizer.step();
        optimizer.zero_grad();
      }
      sharded.reset_peak_memory();
      EXPECT_EQ(sharded.memory().peak_offloaded_activation_bytes, 0);
    }
  });
}

TEST_P(OffloadedActivations, AreThoseOfAtLeastTheBytesAskedFor) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    constexpr int64_t kOne = kTanhRows * kTanhWidth * kFloatBytes;
    for (const int64_t from : {kOne, kOne + 1}) {
      nn::Sequential layers = make_tanh_layers();
      Options options = activations_in(scratch.path());
      options.offload_activations_from = from;
      auto sharded = shard(*layers, world, options);
      loss_of_tanh(layers, torch::full({kTanhRows, kTanhWidth}, 0.1)).backward();
      EXPECT_EQ(sharded.memory().peak_offloaded_activation_bytes, from == kOne ? (kTanhLayers + 1) * kOne : 0);
      EXPECT_EQ(sharded.memory().peak_activation_bytes, from == kOne ? 0 : (kTanhLayers + 1) * kOne);
    }
  });
}

// Micro-batches in a scope of no_sync, with backwards in the order of the forwards.
TEST_P(OffloadedActivations, OfSeveralMicroBatchesHaveTheirBits) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    std::vector<Weights> found;
    for (const bool offloads : {false, true}) {
      const TestModel model = make_gpt();
      auto sharded = shard(*model.module, world, offloads ? activations_in(scratch.path()) : Options{});
      AdamW optimizer(sharded);
      for (int step = 0; step < 3; ++step) {
        {
          const auto no_sync = sharded.no_sync();
          torch::Tensor first = model.loss(step), second = model.loss(10 + step);
          first.backward();
          second.backward(/*gradient=*/{}, /*retain_graph=*/true);
          second.backward();
        }
        model.loss(20 + step).backward();
        optimizer.step();
        optimizer.zero_grad();
      }
      EXPECT_EQ(sharded.memory().offloaded_activation_bytes, 0);
      found.push_back(testing_models::whole_weights(*model.module, sharded));
    }
    EXPECT_THAT(differences(found[0], found[1]), IsEmpty());
  });
}

// A block that runs again keeps its input, which goes to the files; what its second run keeps stays in memory.
TEST(OffloadedActivationsOf, RecomputedBlocksAreTheirInputs) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    nn::Sequential layers = make_tanh_layers();
    auto sharded = shard(*layers, world, activations_in(scratch.path(), {.units = units_of<nn::LinearImpl>()}));
    torch::Tensor x = torch::full({kTanhRows, kTanhWidth}, 0.1);
    for (size_t i = 0; i < kTanhLayers; i += 2) {
      x = activation_checkpoint(
          [&layers, i](const torch::Tensor& input) {
            const torch::Tensor middle = torch::tanh(layers[i]->as<nn::Linear>()->forward(input));
            return torch::tanh(layers[i + 1]->as<nn::Linear>()->forward(middle));
          },
          x);
    }
    constexpr int64_t kOne = kTanhRows * kTanhWidth * kFloatBytes;
    constexpr int64_t kInputs = kTanhLayers / 2 - 1;  // the first comes before a parameter is used
    EXPECT_EQ(sharded.memory().offloaded_activation_bytes, kInputs * kOne);
    EXPECT_EQ(sharded.memory().activation_bytes, 0);
    x.sum().backward();
    EXPECT_EQ(sharded.memory().peak_offloaded_activation_bytes, kInputs * kOne);
    EXPECT_EQ(sharded.memory().peak_activation_bytes, 3 * kOne);  // the input that is there again, and two results
  });
}

TEST_P(OffloadedActivations, TakeNoMoreRoomWithMoreSteps) {
  const ScratchDirectory scratch;
  run_rank_processes(GetParam(), [&](World& world) {
    nn::Sequential layers = make_tanh_layers();
    auto sharded = shard(*layers, world, activations_in(scratch.path()));
    int64_t after_one_step = 0;
    for (int step = 0; step < 5; ++step) {
      loss_of_tanh(layers, torch::full({kTanhRows, kTanhWidth}, 0.1)).backward();
      if (step == 0) after_one_step = bytes_on_disk(scratch.path());
      EXPECT_EQ(bytes_on_disk(scratch.path()), after_one_step) << step;
    }
    EXPECT_GE(after_one_step, sharded.memory().peak_offloaded_activation_bytes);
  });
}

TEST(OffloadedActivationsErrors, OfOptions) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    const auto model = make_gpt();
    const auto message = [&](const Options& options) {
      return message_of<Error>([&] { shard(*model.module, world, options); });
    };
    EXPECT_THAT(message({.offload_activations = true}),
                AllOf(HasSubstr("offload_activations is set"), HasSubstr("Set it to a folder on a local disk")));
    EXPECT_THAT(message({.offload_directory = scratch.path(), .offload = Offload::Nothing}),
                HasSubstr("nothing would be offloaded"));
    Options negative = activations_in(scratch.path());
    negative.offload_activations_from = -1;
    EXPECT_THAT(message(negative), HasSubstr("offload_activations_from -1, expected 0 or more"));
  });
}

TEST(OffloadedActivationsErrors, OfRanksThatDiffer) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    const auto model = make_gpt();
    const bool first = world.rank() == 0;
    EXPECT_THAT(
        message_of<Error>([&] { shard(*model.module, world, first ? Options{} : activations_in(scratch.path())); }),
        HasSubstr("the option offload_activations is true on rank 1 and false on rank 0"));
  });
  run_ranks(2, [&](World& world) {
    const auto model = make_gpt();
    Options options{.offload_directory = scratch.path()};
    if (world.rank() == 1) options.offload = Offload::Optimizer;
    EXPECT_THAT(message_of<Error>([&] { shard(*model.module, world, options); }),
                HasSubstr("the option offload is Optimizer in a folder on rank 1 and All in a folder on rank 0"));
  });
}

// In the midst of a forward, which can be tried again when there is room.
TEST(OffloadedActivationsErrors, OfAFullDisk) {
  const ScratchDirectory scratch;
  const auto unmountable = scratch.path() / "unmountable";
  run_rank_processes(1, [&](World& world) {
    const auto folder = scratch.path() / "disk";
    fs::create_directory(folder);
    constexpr int64_t kOne = kTanhRows * kTanhWidth * kFloatBytes;
    if (!testing::mount_small_disk(folder, static_cast<size_t>(4 * kOne))) {
      fs::create_directory(unmountable);
      return;
    }
    nn::Sequential layers = make_tanh_layers();
    auto sharded = shard(*layers, world, activations_in(folder));
    EXPECT_THAT(message_of<Error>([&] {
                  loss_of_tanh(layers, torch::full({kTanhRows, kTanhWidth}, 0.1));
                }),
                AllOf(HasSubstr("has no room for"), HasSubstr("No space left"), HasSubstr("Free some space")));
    EXPECT_EQ(sharded.memory().offloaded_activation_bytes, 0);
    loss_of_tanh(layers, torch::full({kTanhRows / 8, kTanhWidth}, 0.1)).backward();
    SGD(sharded).step();
  });
  if (fs::exists(unmountable)) FSDP_SKIP_TEST("a rank may not mount a small disk; run the tests as root");
}

}  // namespace
}  // namespace fsdp::offloaded_activations
