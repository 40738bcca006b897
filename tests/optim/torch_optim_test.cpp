// LibTorch's own optimizers step on pieces as on whole parameters.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <sstream>

#include "support/drawn.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_models::make_gpt;
using testing_models::TestModel;
using testing_models::Weights;

using Tensors = std::vector<torch::Tensor>;
using Make = std::function<std::unique_ptr<torch::optim::Optimizer>(Tensors)>;

template <typename Optimizer, typename Settings>
Make maker(Settings settings) {
  return [settings](Tensors tensors) { return std::make_unique<Optimizer>(std::move(tensors), settings); };
}

std::vector<std::pair<std::string, Make>> optimizers() {
  namespace plain = torch::optim;
  return {{"SGD", maker<plain::SGD>(plain::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01))},
          {"Adam", maker<plain::Adam>(plain::AdamOptions(0.01).amsgrad(true))},
          {"AdamW", maker<plain::AdamW>(plain::AdamWOptions(0.01))},
          {"Adagrad", maker<plain::Adagrad>(plain::AdagradOptions(0.01))},
          {"RMSprop", maker<plain::RMSprop>(plain::RMSpropOptions(0.01).centered(true).momentum(0.5))}};
}

constexpr int kSteps = 4;

// The gradients' sum, ended by the factor 1 / ranks, on whole parameters.
Weights train_whole(const TestModel& model, const Make& make, int ranks) {
  Weights weights;
  Tensors parameters;
  for (const auto& parameter : model.module->named_parameters()) {
    weights.emplace_back(parameter.key(), parameter.value());
    parameters.push_back(parameter.value());
  }
  auto optimizer = make(parameters);
  for (int step = 0; step < kSteps; ++step) {
    optimizer->zero_grad();
    Tensors sum(parameters.size());
    for (int rank = 0; rank < ranks; ++rank) {
      for (auto& parameter : parameters) parameter.mutable_grad().reset();
      model.loss(step * ranks + rank).backward();
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] = rank > 0 ? sum[i].add_(parameters[i].grad()) : parameters[i].grad().clone();
      }
    }
    for (size_t i = 0; i < sum.size(); ++i) parameters[i].mutable_grad() = sum[i].mul_(static_cast<float>(1.0 / ranks));
    optimizer->step();
  }
  return weights;
}

class TorchOptim : public ::testing::TestWithParam<int> {};

TEST_P(TorchOptim, StepsOnPiecesAsOnWholeParameters) {
  run_ranks(GetParam(), [](World& world) {
    for (const auto& [name, make] : optimizers()) {
      for (Strategy strategy : {Strategy::FullShard, Strategy::ShardGradOp, Strategy::NoShard}) {
        const auto model = make_gpt();
        auto sharded = shard(*model.module, world, {.strategy = strategy});
        auto optimizer = make(sharded.shards());
        for (int step = 0; step < kSteps; ++step) {
          sharded.zero_grad();
          model.loss(step * world.size() + world.rank()).backward();
          optimizer->step();
          torch::NoGradGuard no_grad;
          model.loss(99);  // publishes
        }
        EXPECT_THAT(testing_models::differences(train_whole(make_gpt(), make, world.size()),
                                                testing_models::whole_weights(*model.module, sharded)),
                    IsEmpty())
            << name;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, TorchOptim, drawn<int>({3}, {1, 2}), ::testing::PrintToStringParamName());

TEST(TorchOptim, ThatIsNotElementWiseIsAnError) {
  run_ranks(2, [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    torch::optim::LBFGS optimizer(sharded.shards());
    model.loss(world.rank()).backward();
    auto closure = [&] { return torch::zeros({}); };
    EXPECT_THAT(message_of([&] { optimizer.step(closure); }),
                AllOf(HasSubstr("element by element"), HasSubstr("Muon")));
    EXPECT_THAT(message_of([&] { torch::nn::utils::clip_grad_norm_(sharded.shards(), 1.0); }),
                HasSubstr("sharded.clip_grad_norm_()"));
  });
}

// Its own zero_grad ends the sum; a rank without a gradient in the next backward ends that one's, too.
TEST(TorchOptim, ARankThatGetsNoGradientClosesTheSumAllTheSame) {
  run_ranks(2, [](World& world) {
    auto first = torch::ones({65}, torch::requires_grad()), second = torch::ones({65}, torch::requires_grad());
    auto sharded = shard(std::vector<NamedUnit>{{"a", {{"first", first}}, {}}, {"b", {{"second", second}}, {}}}, world,
                         {.strategy = Strategy::NoShard});
    torch::optim::SGD optimizer(sharded.shards(), 1.0);
    (first * second).sum().backward();
    optimizer.step();
    optimizer.zero_grad();
    // The backward of rank 1 uses the first one, and gives it nothing.
    const torch::Tensor input = torch::ones({65}, torch::requires_grad());
    (world.rank() == 0 ? (first * 2).sum() : (input * first.detach()).sum()).backward();
    optimizer.step();
    // Both were stepped by 1 at first, then the first by (2 + nothing) / 2.
    EXPECT_TRUE(torch::equal(sharded.shards()[0].clone(), torch::full({65}, -1.0)));
    EXPECT_TRUE(torch::equal(sharded.shards()[1].clone(), torch::zeros({65})));
  });
}

// A peer may want them while this rank waits in a call of the world's.
TEST(TorchOptim, WhatItWroteIsPublishedByACallOfTheWorlds) {
  run_ranks(2, [](World& world) {
    const auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    torch::optim::SGD optimizer(sharded.shards(), 0.1);
    model.loss(world.rank()).backward();
    optimizer.step();
    torch::NoGradGuard no_grad;
    if (world.rank() == 1) model.loss(0);
    world.barrier();
  });
}

// A rank that evaluates alone at the end does so with what all ranks have written.
TEST(TorchOptim, WhatItWroteLastIsPublishedByTheModelsEnd) {
  run_ranks(2, [](World& world) {
    for (Strategy strategy : {Strategy::FullShard, Strategy::ShardGradOp, Strategy::ShardOptimizer}) {
      const auto model = make_gpt();
      auto sharded = std::make_unique<ShardedModel>(shard(*model.module, world, {.strategy = strategy}));
      torch::optim::SGD optimizer(sharded->shards(), 0.1);
      model.loss(world.rank()).backward();
      optimizer.step();
      torch::NoGradGuard no_grad;
      if (world.rank() == 0) EXPECT_TRUE(model.loss(0).isfinite().item<bool>());
    }
  });
}

TEST(TorchOptim, ARankCanEvaluateAloneWhenItsPeersHaveEnded) {
  const auto result = fsdp::testing::run_ranks_to_end(2, [](World& world) {
    const auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    torch::optim::SGD optimizer(sharded.shards(), 0.1);
    model.loss(world.rank()).backward();
    optimizer.step();
    if (world.rank() == 1) return;
    torch::NoGradGuard no_grad;
    std::cout << "loss " << model.loss(0).item<float>() << std::endl;
    std::cout << "state of " << sharded.full_state().size() << std::endl;
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

// As LAMB and LARS do it: the norm of a parameter scales its step.
void step_by_norm(const Tensors& parameters) {
  torch::NoGradGuard no_grad;
  for (torch::Tensor parameter : parameters) parameter.sub_(parameter.grad(), (parameter.norm() * 0.01).item<double>());
}

TEST(TorchOptim, ThatReadsTheNormOfAParameterIsAnErrorUnlessPiecesAreWhole) {
  run_ranks(2, [](World& world) {
    for (Strategy strategy : {Strategy::FullShard, Strategy::NoShard}) {
      auto model = make_gpt();
      auto sharded = shard(*model.module, world, {.strategy = strategy});
      model.loss(world.rank()).backward();
      const auto expected = strategy == Strategy::NoShard
                                ? ::testing::Matcher<std::string>("no error")
                                : AllOf(HasSubstr("aten::norm"), HasSubstr("Strategy::NoShard"), HasSubstr("clone()"));
      EXPECT_THAT(message_of([&] { step_by_norm(sharded.shards()); }), expected);
    }
  });
}

TEST(TorchOptim, OperatorsThatMixTheElementsOfAPieceAreErrors) {
  run_ranks(2, [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    const torch::Tensor piece = sharded.shards()[0];
    const auto refused = HasSubstr("sees only this rank's part");
    EXPECT_THAT(message_of([&] { piece.sum(); }), refused);
    EXPECT_THAT(message_of([&] { piece.mean(); }), refused);
    EXPECT_THAT(message_of([&] { piece.std(); }), refused);
    EXPECT_THAT(message_of([&] { torch::linalg_vector_norm(piece); }), refused);
    EXPECT_THAT(message_of([&] { at::_foreach_norm(sharded.shards()); }), refused);
    EXPECT_THAT(message_of([&] { piece.dot(piece); }), refused);
    EXPECT_THAT(message_of([&] { piece.view({1, -1}).mm(piece.view({-1, 1})); }), refused);
  });
}

TEST(TorchOptim, PiecesCanBeReadCopiedAndSavedAsBefore) {
  run_ranks(2, [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    const Tensors pieces = sharded.shards();
    const torch::Tensor copy = pieces[0].clone(), all = torch::cat(pieces);
    EXPECT_TRUE(torch::equal(pieces[0], copy));
    EXPECT_TRUE(torch::allclose(pieces[0], copy));
    EXPECT_TRUE(torch::equal(all.slice(0, 0, copy.numel()), copy));
    EXPECT_EQ(copy.sum().item<float>(), pieces[0].clone().sum().item<float>());
    EXPECT_EQ(torch::stack({pieces[0], copy}).size(0), 2);
    EXPECT_EQ(pieces[0].numel() == 0 ? 0 : pieces[0][0].item<float>(), copy.numel() == 0 ? 0 : copy[0].item<float>());
    EXPECT_EQ(pieces[0].isfinite().all().item<bool>(), true);
    std::ostringstream printed, expected;
    printed << pieces[0];
    expected << copy;
    EXPECT_EQ(printed.str(), expected.str());
    std::stringstream file;
    torch::save(pieces[0], file);
    torch::Tensor loaded;
    torch::load(loaded, file);
    EXPECT_TRUE(torch::equal(loaded, copy));
  });
}

// Anything that would make the tensor show other memory, or its elements in another shape.
TEST(TorchOptim, APieceThatWouldLeaveTheModelIsAnError) {
  run_ranks(2, [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    const Weights before = testing_models::whole_weights(*model.module, sharded);
    const Tensors pieces = sharded.shards();
    const torch::Tensor piece = pieces[0];
    const std::vector<std::function<void(torch::Tensor)>> changes{
        [](torch::Tensor tensor) { tensor.set_data(torch::zeros_like(tensor)); },
        [](torch::Tensor tensor) { tensor.resize_({tensor.numel() / 2}); },
        [](torch::Tensor tensor) { tensor.resize_as_(torch::zeros({1})); },
        [](torch::Tensor tensor) { tensor.set_(torch::zeros_like(tensor)); },
        [](torch::Tensor tensor) { tensor.unsqueeze_(0); },
        [](torch::Tensor tensor) { tensor.as_strided_({1}, {1}); },
    };
    torch::NoGradGuard no_grad;
    for (const auto& change : changes) {
      EXPECT_THAT(message_of([&] { change(piece); }), HasSubstr("piece.copy_(values)"));
    }
    const torch::Tensor values = torch::zeros({torch::nn::utils::parameters_to_vector(pieces).numel()});
    EXPECT_THAT(message_of([&] { torch::nn::utils::vector_to_parameters(values, pieces); }),
                HasSubstr("vector_to_parameters"));
    EXPECT_THAT(testing_models::differences(before, testing_models::whole_weights(*model.module, sharded)), IsEmpty());
    for (torch::Tensor each : pieces) each.copy_(torch::zeros_like(each));
    for (const auto& [name, tensor] : sharded.full_state()) EXPECT_EQ(tensor.abs().sum().item<float>(), 0) << name;
  });
}

TEST(TorchOptim, AStepBetweenForwardAndBackwardIsAnError) {
  run_ranks(2, [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    torch::optim::SGD optimizer(sharded.shards(), 0.1);
    model.loss(world.rank()).backward();
    auto loss = model.loss(world.rank());
    optimizer.step();
    sharded.zero_grad();
    EXPECT_THAT(message_of([&] { loss.backward(); }), HasSubstr("between this backward and its forward"));
  });
}

}  // namespace
}  // namespace fsdp
