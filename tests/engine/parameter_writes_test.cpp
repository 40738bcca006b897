// Operators that write full parameters outside of full_parameters(), as a forward that masks a weight does.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/drawn.h"
#include "support/masked_models.h"
#include "support/message_of.h"
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
using testing_models::MaskedConvolution;
using testing_models::MaskedConvolutionImpl;
using testing_models::MaskedNet;
using torch::Tensor;

Options with_masked_units(Options options = {}) {
  options.units = units_of<MaskedConvolutionImpl>();
  return options;
}

Tensor value_of(ShardedModel& sharded, const std::string& name) {
  for (const auto& [found, value] : sharded.full_state())
    if (found == name) return value;
  ADD_FAILURE() << "no " << name;
  return {};
}

// What every rank has of a tensor that depends on its rank.
Tensor of_rank(const Tensor& like, World& world) { return torch::full_like(like, static_cast<double>(world.rank())); }

class ParameterWrites : public ::testing::TestWithParam<fsdp::testing::Job> {};

TEST_P(ParameterWrites, GiveTheBitsOfOneProcessWithEveryStrategy) {
  run_ranks(GetParam(), [](World& world) {
    testing_models::Training training{.steps = 4, .micro_batches = 2 * world.size(), .clip = 0.05};
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
      training.param_dtype = dtype;
      testing_models::Expected expected(testing_models::make_masked, training);
      for (auto& [name, options] : testing_models::every_strategy(world.size())) {
        SCOPED_TRACE(name + ", " + toString(dtype));
        options.mixed_precision.param_dtype = dtype;
        testing_models::expect_same_bits(expected, world, with_masked_units(options));
      }
    }
  });
}

TEST_P(ParameterWrites, GiveTheBitsOfOneProcessWithStepsInTheBackward) {
  run_ranks(GetParam(), [](World& world) {
    const testing_models::Training training{.steps = 6, .micro_batches = world.size(), .in_backward_every = 2};
    testing_models::expect_same_bits(testing_models::make_masked, world, training, with_masked_units());
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ParameterWrites,
                         drawn<testing::Job>({{3}, {2, "gloo"}}, {{1}, {2}, {4}, {3, "gloo"}, {4, "gloo"}}),
                         ::testing::PrintToStringParamName());

TEST(ParameterWritesOnHosts, GiveTheBitsOfOneProcessWithEveryStrategy) {
  testing::run_on_hosts({.hosts = 2, .ranks = 2}, [](World& world) {
    const testing_models::Training training{.steps = 3, .micro_batches = 2 * world.size()};
    testing_models::expect_same_bits_with_every_strategy(testing_models::make_masked, world, training);
  });
}

// The loss of a forward without gradients, and after it the value in the state.
TEST(ParameterWrites, AreKeptOfAForwardWithoutGradients) {
  for (const char* backend : {"shm", "gloo"}) {
    run_ranks({.ranks = 2, .backend = backend}, [](World& world) {
      torch::manual_seed(0);
      MaskedNet plain, net;
      for (size_t i = 0; i < plain->parameters().size(); ++i) plain->parameters()[i].data().copy_(net->parameters()[i]);
      auto sharded = shard(*net, world, with_masked_units());
      torch::NoGradGuard no_grad;
      for (int pass = 0; pass < 2; ++pass) {
        EXPECT_TRUE(
            torch::equal(testing_models::masked_net_loss(*net, pass), testing_models::masked_net_loss(*plain, pass)));
      }
      EXPECT_TRUE(torch::equal(value_of(sharded, "layers.1.weight"), plain->named_parameters()["layers.1.weight"]));
    });
  }
}

// bf16 rounds values, and the shards do not.
TEST(ParameterWrites, LeaveUnchangedElementsAllBitsOfTheShard) {
  run_ranks(2, [](World& world) {
    torch::manual_seed(0);
    MaskedConvolution layer(3, 4, [](const Tensor& weight, const Tensor& mask) { weight.data().mul_(mask); });
    const Tensor before = layer->weight.detach().clone(), mask = layer->mask.clone();
    auto sharded = shard(*layer, world, {.mixed_precision = {.param_dtype = torch::kBFloat16}});
    layer->forward(torch::ones({1, 3, 4, 4}, torch::kBFloat16));
    EXPECT_FALSE(torch::equal(before, before.to(torch::kBFloat16).to(torch::kFloat32)));
    EXPECT_TRUE(torch::equal(value_of(sharded, "weight"), before * mask));
  });
}

// Weights are clipped between the steps of a critic (https://arxiv.org/abs/1701.07875).
TEST(ParameterWrites, AreKeptBetweenSteps) {
  for (const char* backend : {"shm", "gloo"}) {
    run_ranks({.ranks = 2, .backend = backend}, [](World& world) {
      auto model = testing_models::make_gpt();
      auto sharded = shard(*model.module, world);
      AdamW optimizer(sharded, {});
      for (int step = 0; step < 3; ++step) {
        model.loss(step).backward();
        optimizer.step();
        optimizer.zero_grad();
        torch::NoGradGuard no_grad;
        for (auto& parameter : model.module->parameters()) parameter.clamp_(-0.01, 0.01);
      }
      for (const auto& [name, value] : sharded.full_state({.buffers = false}))
        EXPECT_LE(value.abs().max().item<float>(), 0.01F) << name;
    });
  }
}

// Every forward of a rank is one write: so often a rank runs, and not so often all do.
TEST(ParameterWrites, HappenOnceForEachForwardOfARank) {
  run_ranks(2, [](World& world) {
    MaskedConvolution layer(1, 1, [](const Tensor& weight, const Tensor&) { weight.data().mul_(0.5); });
    layer->weight.data().fill_(1);
    auto sharded = shard(*layer, world);
    for (int pass = 0; pass < 3; ++pass) layer->forward(torch::ones({1, 1, 3, 3})).sum().backward();
    EXPECT_TRUE(value_of(sharded, "weight").eq(0.125).all().item<bool>());
  });
}

TEST(ParameterWrites, OfOtherValuesOnARankAreAnErrorThatNamesTheParameter) {
  for (const char* backend : {"shm", "gloo"}) {
    run_ranks({.ranks = 3, .backend = backend}, [](World& world) {
      MaskedNet net;
      auto sharded = shard(*net, world, with_masked_units());
      const Tensor before = value_of(sharded, "layers.1.bias");
      auto bias = net->layers[1]->as<MaskedConvolutionImpl>()->bias;
      torch::NoGradGuard no_grad;
      EXPECT_THAT(message_of([&] { bias.copy_(of_rank(bias, world)); }),
                  AllOf(HasSubstr("aten::copy_ writes the sharded parameter layers.1.bias"),
                        HasSubstr("other values on rank 1 than on rank 0"), HasSubstr("run one forward before")));
      EXPECT_TRUE(torch::equal(value_of(sharded, "layers.1.bias"), before));
      bias.fill_(2);  // the model is as before
      EXPECT_TRUE(value_of(sharded, "layers.1.bias").eq(2).all().item<bool>());
    });
  }
}

// The ranks that go on see that the others have come to something else.
TEST(ParameterWrites, OfOneRankAloneAreAnErrorThatNamesIt) {
  for (const char* backend : {"shm", "gloo"}) {
    const auto result = testing::run_ranks_to_end(2,
                                                  [](World& world) {
                                                    auto model = testing_models::make_gpt();
                                                    auto sharded = shard(*model.module, world);
                                                    const Tensor loss = model.loss(0);
                                                    torch::NoGradGuard no_grad;
                                                    if (world.rank() == 0) model.module->parameters()[0].mul_(2);
                                                    torch::AutoGradMode gradients(true);
                                                    loss.backward();
                                                  },
                                                  {.backend = backend, .timeout = std::chrono::seconds(20)});
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.output, HasSubstr("for aten::mul_"));
  }
}

TEST(ParameterWrites, ThatThrowLeaveTheModelAsItWas) {
  for (int ranks : {1, 2}) {
    run_ranks(ranks, [](World& world) {
      auto model = testing_models::make_gpt();
      auto sharded = shard(*model.module, world);
      const auto before = sharded.full_state();
      auto parameter = model.module->parameters()[0];
      EXPECT_THAT(message_of([&] { parameter.mul_(2); }), HasSubstr("leaf Variable"));
      torch::NoGradGuard no_grad;
      EXPECT_THAT(message_of([&] { parameter.copy_(torch::ones({7})); }), HasSubstr("size"));
      EXPECT_THAT(testing_models::differences(before, sharded.full_state()), IsEmpty());
      torch::AutoGradMode gradients(true);
      model.loss(0).backward();
    });
  }
}

struct RecomputedMask : torch::nn::Module {
  explicit RecomputedMask(testing_models::WriteMask write)
      : layer(register_module("layer", MaskedConvolution(2, 2, std::move(write)))) {}
  Tensor loss() {
    const Tensor x = torch::ones({1, 2, 4, 4}).requires_grad_();
    return activation_checkpoint([this](const Tensor& y) { return torch::tanh(layer->forward(y)); }, x).sum();
  }

  MaskedConvolution layer;
};

TEST(ParameterWrites, AreRepeatedByRecomputedForwards) {
  for (const auto& [name, write] : testing_models::ways_to_write_masks()) {
    SCOPED_TRACE(name);
    run_ranks(2, [&](World& world) {
      RecomputedMask net(write);
      auto sharded = shard(net, world);
      for (int step = 0; step < 2; ++step) net.loss().backward();
      EXPECT_TRUE((value_of(sharded, "layer.weight") * (1 - net.layer->mask)).eq(0).all().item<bool>());
    });
  }
}

TEST(ParameterWrites, ThatARecomputedForwardDoesNotRepeatAreAnError) {
  run_ranks(2, [](World& world) {
    RecomputedMask net([](const Tensor& weight, const Tensor&) { weight.data().mul_(0.5); });
    auto sharded = shard(net, world);
    const Tensor loss = net.loss();
    EXPECT_THAT(message_of([&] { loss.backward(); }),
                AllOf(HasSubstr("aten::mul_ changes a sharded parameter in a backward"), HasSubstr("weight * factor")));
  });
}

TEST(ParameterWrites, InStepsWithoutABatchOnSomeRankAreAnErrorIfTheyChangeSomething) {
  const auto result = testing::run_ranks_to_end(2,
                                                [](World& world) {
                                                  MaskedNet net;
                                                  auto sharded = shard(*net, world, with_masked_units());
                                                  const bool here = world.rank() == 0;
                                                  sharded.any_rank_has_batch(here);
                                                  here ? testing_models::masked_net_loss(*net, 1).backward()
                                                       : sharded.backward_without_batch();
                                                },
                                                {.timeout = std::chrono::seconds(20)});
  EXPECT_THAT(result.output, HasSubstr("in a step in which some ranks have no batch"));
  for (const char* backend : {"shm", "gloo"}) {
    run_ranks({.ranks = 2, .backend = backend}, [](World& world) {
      MaskedNet net;
      auto sharded = shard(*net, world, with_masked_units());
      testing_models::masked_net_loss(*net, 0).backward();
      sharded.zero_grad();
      // The weights are masked already.
      const bool here = world.rank() == 0;
      ASSERT_TRUE(sharded.any_rank_has_batch(here));
      here ? testing_models::masked_net_loss(*net, 1).backward() : sharded.backward_without_batch();
    });
  }
}

}  // namespace
}  // namespace fsdp
