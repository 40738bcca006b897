// Graphs of recomputed blocks that run backward more than once, and whose gradients are differentiated again, on ranks:
// the bits of one process without recomputation.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "models/budgeted_net.h"
#include "support/repeated_models.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp::recomputed_graphs {
namespace {

using activation_budgets::Net;
using fsdp::testing::run_ranks;
using testing_models::Residual;
using testing_models::residual_input;
using testing_models::residual_with;
using testing_models::TestModel;
using testing_models::Training;
using torch::Tensor;
using torch::autograd::grad;

// How the three layers of a Residual are called.
using Body = std::function<Tensor(Residual& net, Tensor x)>;

Tensor layer(Residual& net, size_t i, const Tensor& x) { return torch::dropout(net.layer(i, x), 0.2, true); }

Tensor plain(Residual& net, Tensor x) {
  for (size_t i = 0; i < testing_models::kResidualBlocks; ++i) x = layer(net, i, x);
  return x;
}

Body each_with(const ActivationCheckpointOptions& options) {
  return [options](Residual& net, Tensor x) {
    for (size_t i = 0; i < testing_models::kResidualBlocks; ++i) {
      x = activation_checkpoint(
          options, [&net, i](const Tensor& y) { return layer(net, i, y); }, x);
    }
    return x;
  };
}

Tensor nested(Residual& net, const Tensor& input) {
  const auto all_of_them = [&net](Tensor x) { return each_with({})(net, std::move(x)); };
  return activation_checkpoint(all_of_them, input);
}

const std::map<std::string, Body>& bodies() {
  static const std::map<std::string, Body> all{{"Each", each_with({})},
                                               {"EachButProducts", each_with({.keep = KeptResults::Products})},
                                               {"EachToItsEnd", each_with({.stop_early = false})},
                                               {"Nested", nested}};
  return all;
}

// Of a micro-batch whose blocks run as `body` says.
using Loss = std::function<Tensor(Residual& net, const Body& body, int64_t b)>;

Tensor squares_of(Residual& net, const Body& body, const Tensor& x, int64_t b) {
  torch::manual_seed(100 + static_cast<uint64_t>(b));
  return body(net, x).pow(2).mean(1);
}

Tensor plain_loss(Residual& net, const Body& body, int64_t b) {
  return squares_of(net, body, residual_input(b), b).mean();
}

Tensor penalty_on_inputs(Residual& net, const Body& body, int64_t b) {
  const Tensor x = residual_input(b).requires_grad_();
  const Tensor scores = squares_of(net, body, x, b);
  const Tensor slope = grad({scores.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  return scores.mean() + (slope.norm(2, 1) - 1).pow(2).mean();
}

Tensor penalty_on_parameters(Residual& net, const Body& body, int64_t b) {
  const Tensor loss = plain_loss(net, body, b);
  const auto slopes = grad({loss}, {net.blocks->parameters()[0], net.blocks->parameters()[2]}, {},
                           /*retain_graph=*/true, /*create_graph=*/true);
  return loss + slopes[0].pow(2).sum() + slopes[1].pow(2).sum();
}

std::function<TestModel()> make(const Loss& loss, const Body& body) {
  return residual_with([loss, body](Residual& net, int64_t b) { return loss(net, body, b); });
}

class RecomputedGraphs : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, RecomputedGraphs, ::testing::Values(2, 3), ::testing::PrintToStringParamName());

// Trains what `unsharded` makes, and expects its bits of every strategy with what `recomputed` makes. Each of
// `backwards` of a graph counts as a micro-batch: the first ones of all ranks, then the second ones of all ranks.
void expect_bits_of(const std::function<TestModel()>& unsharded, const std::function<TestModel()>& recomputed,
                    World& world, int backwards, double clip = 0) {
  const int64_t ranks = world.size();
  const Training training{.steps = 3, .micro_batches = backwards * ranks, .clip = clip};
  const TestModel one = unsharded();
  const auto again = [&](int64_t b) { return one.loss(b / (backwards * ranks) * ranks + b % ranks); };
  const auto expected = testing_models::train_unsharded({one.module, again}, training);
  for (auto [name, options] : testing_models::every_strategy(world.size())) {
    const TestModel model = recomputed();
    if (std::dynamic_pointer_cast<Net>(model.module)) options.units = activation_budgets::blocks_as_units();
    auto sharded = shard(*model.module, world, options);
    AdamW optimizer(sharded, {.lr = training.lr});
    sharded.set_gradient_divisor(static_cast<double>(training.micro_batches));
    for (int step = 0; step < training.steps; ++step) {
      const Tensor loss = model.loss(step * ranks + world.rank());
      for (int i = 0; i < backwards; ++i) loss.backward({}, /*retain_graph=*/i + 1 < backwards);
      if (clip > 0) sharded.clip_grad_norm_(clip);
      optimizer.step();
      optimizer.zero_grad();
    }
    const auto found = testing_models::whole_weights(*model.module, sharded);
    EXPECT_THAT(testing_models::differences(expected, found), ::testing::IsEmpty()) << name;
  }
}

void expect_bits_of_plain(const Loss& loss, World& world, int backwards, double clip = 0) {
  for (const auto& [name, body] : bodies()) {
    SCOPED_TRACE(name);
    expect_bits_of(make(loss, plain), make(loss, body), world, backwards, clip);
  }
}

TEST_P(RecomputedGraphs, RunBackwardTwice) {
  run_ranks(GetParam(), [](World& world) { expect_bits_of_plain(plain_loss, world, 2); });
}

TEST_P(RecomputedGraphs, HaveAPenaltyOnGradientsOfInputs) {
  run_ranks(GetParam(), [](World& world) { expect_bits_of_plain(penalty_on_inputs, world, 1, /*clip=*/0.5); });
}

TEST_P(RecomputedGraphs, HaveAPenaltyOnGradientsOfParameters) {
  run_ranks(GetParam(), [](World& world) { expect_bits_of_plain(penalty_on_parameters, world, 1, /*clip=*/0.5); });
}

TEST_P(RecomputedGraphs, RunBackwardTwiceWithAPenalty) {
  run_ranks(GetParam(), [](World& world) {
    expect_bits_of_plain(penalty_on_inputs, world, 2);
    expect_bits_of_plain(penalty_on_parameters, world, 2);
  });
}

// The gradients are this rank's, whole, as those of the plain model, and leave the pieces' gradients alone.
TEST_P(RecomputedGraphs, GiveTheGradientsOfThePlainModel) {
  run_ranks(GetParam(), [](World& world) {
    const auto one = make(plain_loss, plain)();
    const auto expected = grad({one.loss(world.rank())}, one.module->parameters());
    for (const auto& [name, body] : bodies()) {
      for (const auto& [strategy, options] : testing_models::every_strategy(world.size())) {
        const auto model = make(plain_loss, body)();
        auto sharded = shard(*model.module, world, options);
        const Tensor loss = model.loss(world.rank());
        for (const bool retained : {true, false}) {
          const auto found = grad({loss}, model.module->parameters(), {}, retained);
          for (size_t i = 0; i < expected.size(); ++i)
            EXPECT_TRUE(torch::equal(found[i], expected[i])) << name << ", " << strategy << ", " << i;
        }
        for (const Tensor& piece : sharded.shards()) EXPECT_FALSE(piece.grad().defined()) << name;
      }
    }
  });
}

// Recomputed<Impl>, in a Llama's blocks: LibTorch has no second derivative of attention on the CPU.
TEST_P(RecomputedGraphs, OfModulesRunBackwardTwiceWithAPenalty) {
  const auto make_net = [](bool recomputed) {
    const auto net = activation_budgets::make_net({.llama = true, .recomputed = recomputed});
    return TestModel{net, [net](int64_t b) {
                       const Tensor x = testing_models::values_for(b, {2, activation_budgets::kLength, 3});
                       const Tensor loss = net->forward(x.requires_grad_());
                       return loss + grad({loss}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0].norm();
                     }};
  };
  run_ranks(GetParam(), [&](World& world) {
    for (const int backwards : {1, 2})
      expect_bits_of([&] { return make_net(false); }, [&] { return make_net(true); }, world, backwards);
  });
}

// With attention and dropout.
TEST_P(RecomputedGraphs, OfModulesRunBackwardTwice) {
  run_ranks(GetParam(), [](World& world) {
    expect_bits_of([] { return activation_budgets::test_model({.recomputed = false}); },
                   [] { return activation_budgets::test_model({.recomputed = true}); }, world, 2);
  });
}

}  // namespace
}  // namespace fsdp::recomputed_graphs
