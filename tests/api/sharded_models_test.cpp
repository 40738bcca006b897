// Models that one loop trains together, and reports of a step.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/drawn.h"
#include "support/gan.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_models::Gan;
using testing_models::Training;
using testing_models::Unsharded;
using testing_models::Weights;

constexpr int kJointSteps = 4, kJointMicroBatches = 2;  // per rank and step

// One module of both, as one process would train them together.
struct BothImpl : torch::nn::Module {
  explicit BothImpl(const Gan& gan) {
    register_module("generator", gan.generator.ptr());
    register_module("discriminator", gan.discriminator.ptr());
  }
};

struct Trained {
  Weights weights;
  std::vector<double> norms;
};

Trained train_plain_both(const Training& training) {
  Gan gan;
  Unsharded unsharded(std::make_shared<BothImpl>(gan), training);
  Trained trained;
  for (int64_t step = 0; step < kJointSteps; ++step) {
    for (int64_t b = 0; b < training.micro_batches; ++b) {
      unsharded.add([&] { return gan.generator_loss(step * training.micro_batches + b); });
    }
    trained.norms.push_back(unsharded.step());
  }
  trained.weights = unsharded.weights();
  return trained;
}

class ShardedModelsOnRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ShardedModelsOnRanks, drawn<int>({3}, {1, 2}), ::testing::PrintToStringParamName());

TEST_P(ShardedModelsOnRanks, AreClippedByOneNormWithTheBitsOfOneModel) {
  run_ranks(GetParam(), [](World& world) {
    for (const double norm_type : {1.0, 2.0, std::numeric_limits<double>::infinity()}) {
      const Training training{
          .micro_batches = kJointMicroBatches * world.size(), .clip = 0.01, .clip_norm_type = norm_type};
      const Trained plain = train_plain_both(training);
      Gan gan;
      auto generator = shard(*gan.generator, world);
      auto discriminator = shard(*gan.discriminator, world, {.strategy = Strategy::NoShard});
      AdamW first(generator, {.lr = training.lr}), second(discriminator, {.lr = training.lr});
      ShardedModels both({discriminator, generator});
      both.set_gradient_divisor(static_cast<double>(training.micro_batches));
      for (int64_t step = 0; step < kJointSteps; ++step) {
        for (int64_t b = 0; b < kJointMicroBatches; ++b) {
          gan.generator_loss(step * training.micro_batches + b * world.size() + world.rank()).backward();
        }
        EXPECT_EQ(both.clip_grad_norm_(training.clip, norm_type), plain.norms[step]) << norm_type;
        first.step();
        second.step();
        both.zero_grad();
      }
      Weights weights;
      for (const auto& [name, weight] : testing_models::whole_weights(*gan.generator, generator))
        weights.emplace_back("generator." + name, weight);
      for (const auto& [name, weight] : testing_models::whole_weights(*gan.discriminator, discriminator))
        weights.emplace_back("discriminator." + name, weight);
      EXPECT_THAT(testing_models::differences(plain.weights, weights), IsEmpty()) << norm_type;
    }
  });
}

TEST(ShardedModels, HoldTheSumOfTheirMemory) {
  run_ranks(2, [](World& world) {
    Gan gan;
    auto generator = shard(*gan.generator, world), discriminator = shard(*gan.discriminator, world);
    const ShardedModels both({generator, discriminator});
    const ShardedModel moved = std::move(generator);
    EXPECT_EQ(both.memory().parameter_bytes, moved.memory().parameter_bytes + discriminator.memory().parameter_bytes);
    EXPECT_EQ(both.memory().total_bytes(), moved.memory().total_bytes() + discriminator.memory().total_bytes());
  });
}

TEST(ShardedModels, NoneAndTheSameTwiceAreErrors) {
  run_ranks(1, [](World& world) {
    Gan gan;
    auto generator = shard(*gan.generator, world);
    EXPECT_THAT(message_of<Error>([] { ShardedModels({}); }), HasSubstr("found no model"));
    EXPECT_THAT(message_of<Error>([&] { ShardedModels({generator, generator}); }), HasSubstr("each model once"));
  });
}

TEST(CommunicationReport, OfAStepIsTheDifferenceOfTwo) {
  run_ranks(2, [](World& world) {
    Gan gan;
    auto sharded = shard(*gan.generator, world);
    AdamW optimizer(sharded, {.lr = 1e-2});
    std::vector<CommunicationReport> of_steps;
    for (int64_t step = 0; step < 4; ++step) {
      const CommunicationReport before = sharded.communication();
      gan.generator->forward(torch::ones({2, 4})).sum().backward();
      optimizer.step();
      optimizer.zero_grad();
      of_steps.push_back(sharded.communication().since(before));
    }
    EXPECT_EQ(of_steps[2].reductions, static_cast<int64_t>(sharded.units().size()));
    EXPECT_EQ(of_steps[3].reductions, of_steps[2].reductions);
    EXPECT_EQ(of_steps[3].gathers, of_steps[2].gathers);
    EXPECT_EQ(of_steps[3].late_gradients, 0);
    EXPECT_GE(of_steps[3].wait_seconds, 0);
  });
}

TEST(FullState, HasParametersAloneWhereBuffersAreLeftOut) {
  run_ranks(2, [](World& world) {
    torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4));
    auto sharded = shard(*model, world);
    const auto names_of = [](const NamedTensors& tensors) {
      std::vector<std::string> names;
      for (const auto& [name, tensor] : tensors) names.push_back(name);
      return names;
    };
    const auto parameters = names_of(sharded.full_state({.buffers = false}));
    EXPECT_EQ(parameters, model->named_parameters().keys());
    auto all = parameters;
    const auto buffers = names_of(sharded.buffers());
    all.insert(all.end(), buffers.begin(), buffers.end());
    EXPECT_EQ(names_of(sharded.full_state()), all);
  });
}

}  // namespace
}  // namespace fsdp
