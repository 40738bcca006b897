// Models with recomputation on ranks, against one process without it: the same bits, and no gather more.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <map>

#include "support/drawn.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp::recomputed {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::Job;
using fsdp::testing::run_ranks;
using ::testing::IsEmpty;
using testing_models::TestModel;
using testing_models::Training;
using torch::Tensor;

constexpr int64_t kLength = 5, kWidth = 12, kBlocks = 4;

// Attention with one head and an MLP, with dropout in both.
struct DropoutBlockImpl : torch::nn::Module {
  DropoutBlockImpl()
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})))),
        qkv(register_module("qkv", torch::nn::Linear(kWidth, 3 * kWidth))),
        up(register_module("up", torch::nn::Linear(kWidth, 2 * kWidth))),
        down(register_module("down", torch::nn::Linear(2 * kWidth, kWidth))) {}

  Tensor forward(const Tensor& input) {
    const auto parts = qkv(norm(input)).unsqueeze(1).chunk(3, -1);
    const Tensor mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true).squeeze(1);
    const Tensor x = input + torch::dropout(mixed, 0.2, is_training());
    return x + torch::dropout(down(torch::gelu(up(x))), 0.2, is_training());
  }

  torch::nn::LayerNorm norm;
  torch::nn::Linear qkv, up, down;
};

struct DropoutNet : torch::nn::Module {
  DropoutNet() {
    for (int64_t i = 0; i < kBlocks; ++i) blocks->push_back(std::make_shared<DropoutBlockImpl>());
    register_module("blocks", blocks);
    head = register_module("head", torch::nn::Linear(kWidth, 3));
  }
  DropoutBlockImpl& block(int64_t i) { return blocks->at<DropoutBlockImpl>(i); }

  torch::nn::ModuleList blocks;
  torch::nn::Linear head{nullptr};
};

// How the blocks are called.
using Body = std::function<Tensor(DropoutNet& net, Tensor x)>;

Tensor plain(DropoutNet& net, Tensor x) {
  for (int64_t i = 0; i < kBlocks; ++i) x = net.block(i).forward(x);
  return x;
}

Tensor checkpointed(DropoutNet& net, int64_t i, const Tensor& x, KeptResults keep = KeptResults::None) {
  return activation_checkpoint(
      {.keep = keep}, [&net, i](const Tensor& y) { return net.block(i).forward(y); }, x);
}

const std::map<std::string, Body>& bodies() {
  static const std::map<std::string, Body> all{
      {"Each",
       [](DropoutNet& net, Tensor x) {
         for (int64_t i = 0; i < kBlocks; ++i) x = checkpointed(net, i, x);
         return x;
       }},
      {"EachButProducts",
       [](DropoutNet& net, Tensor x) {
         for (int64_t i = 0; i < kBlocks; ++i) x = checkpointed(net, i, x, KeptResults::Products);
         return x;
       }},
      {"EverySecond",
       [](DropoutNet& net, Tensor x) {
         for (int64_t i = 0; i < kBlocks; ++i) x = i % 2 == 0 ? checkpointed(net, i, x) : net.block(i).forward(x);
         return x;
       }},
      {"TwoAtATime",
       [](DropoutNet& net, Tensor x) {
         for (int64_t i = 0; i < kBlocks; i += 2) {
           const auto both = [&net, i](const Tensor& y) { return net.block(i + 1).forward(net.block(i).forward(y)); };
           x = activation_checkpoint(both, x);
         }
         return x;
       }},
      {"Nested",
       [](DropoutNet& net, Tensor x) {
         const auto all_of_them = [&net](Tensor y) {
           for (int64_t i = 0; i < kBlocks; ++i) y = checkpointed(net, i, y);
           return y;
         };
         return activation_checkpoint(all_of_them, x);
       }},
  };
  return all;
}

std::function<TestModel()> make(const Body& body) {
  return [body] {
    torch::manual_seed(7);
    auto net = std::make_shared<DropoutNet>();
    return TestModel{net, [net, body](int64_t b) {
                       torch::manual_seed(100 + static_cast<uint64_t>(b));
                       const Tensor x = testing_models::values_for(b, {2, kLength, kWidth});
                       return net->head(body(*net, x)).pow(2).mean();
                     }};
  };
}

UnitPolicy blocks_as_units() { return units_of<DropoutBlockImpl>(); }

class RecomputedModels : public ::testing::TestWithParam<Job> {};

TEST_P(RecomputedModels, HaveTheBitsOfOneProcessWithout) {
  run_ranks(GetParam(), [](World& world) {
    const Training training{.steps = 3, .micro_batches = 2 * world.size(), .clip = 0.5};
    testing_models::Expected expected(make(plain), training);
    for (const auto& [name, body] : bodies()) {
      for (auto [strategy, options] : testing_models::every_strategy(world.size())) {
        const TestModel model = make(body)();
        options.units = blocks_as_units();
        auto sharded = shard(*model.module, world, options);
        testing_models::train(model, sharded, world, training);
        EXPECT_EQ(sharded.communication().late_gradients, 0) << name << ", " << strategy;
        const auto found = testing_models::whole_weights(*model.module, sharded);
        if (world.rank() != 0) continue;
        EXPECT_THAT(testing_models::differences(expected.weights(), found), IsEmpty()) << name << ", " << strategy;
      }
    }
  });
}

// From the first backward on, of which nothing is known before.
TEST_P(RecomputedModels, HoldGradientsOfNoMoreWholeUnitsThanThePlainModel) {
  run_ranks(GetParam(), [](World& world) {
    const auto held = [&world](const Body& body) {
      const TestModel model = make(body)();
      auto sharded = shard(*model.module, world, {.units = blocks_as_units()});
      testing_models::train(model, sharded, world, {.steps = 1, .micro_batches = world.size()});
      return sharded.memory().full_gradient_bytes;
    };
    const int64_t expected = held(plain);
    for (const auto& [name, body] : bodies()) EXPECT_LE(held(body), expected) << name;
  });
}

TEST_P(RecomputedModels, AccumulateInNoSync) {
  run_ranks(GetParam(), [](World& world) {
    const auto weights = [&](const Body& body) {
      const TestModel model = make(body)();
      auto sharded = shard(*model.module, world, {.units = blocks_as_units()});
      AdamW optimizer(sharded);
      for (int step = 0; step < 3; ++step) {
        const auto backward = [&](int b) { model.loss((2 * step + b) * world.size() + world.rank()).backward(); };
        {
          const NoSync scope = sharded.no_sync();
          backward(0);
        }
        backward(1);
        optimizer.step();
        optimizer.zero_grad();
      }
      return testing_models::whole_weights(*model.module, sharded);
    };
    const auto expected = weights(plain);
    for (const auto& [name, body] : bodies()) {
      EXPECT_THAT(testing_models::differences(expected, weights(body)), IsEmpty()) << name;
    }
  });
}

struct TiedHeadImpl : torch::nn::Module {
  explicit TiedHeadImpl(int64_t width) : norm(register_module("norm", torch::nn::LayerNorm(std::vector{width}))) {}
  Tensor forward(const Tensor& x, const Tensor& weight) { return torch::linear(norm(x).tanh(), weight).sin(); }
  torch::nn::LayerNorm norm;
};

// Its parts are given a weight of another module. The step's first use of any parameter is such a part's.
template <typename Head>
struct TiedNet : torch::nn::Module {
  TiedNet() {
    embedding = register_module("embedding", torch::nn::Linear(kWidth, kWidth));
    head = register_module("head", Head(kWidth));
  }
  template <typename Call>
  Tensor loss(const Tensor& x, const Call& call) {
    const auto product = [](const Tensor& a, const Tensor& weight) { return torch::linear(a, weight).exp(); };
    return head->forward(embedding(call(product, x, embedding->weight)), embedding->weight).pow(2).mean();
  }
  torch::nn::Linear embedding{nullptr};
  Head head{nullptr};
};

template <typename Head, typename Call>
TestModel make_tied(const Call& call) {
  torch::manual_seed(8);
  auto net = std::make_shared<TiedNet<Head>>();
  return {net, [net, call](int64_t b) { return net->loss(testing_models::values_for(b, {3, kWidth}), call); }};
}

TORCH_MODULE(TiedHead);

TEST_P(RecomputedModels, MayBeGivenAParameter) {
  run_ranks(GetParam(), [](World& world) {
    const auto called = [](const auto& function, const auto&... inputs) { return function(inputs...); };
    const auto again = [](const auto& function, const auto&... in) { return activation_checkpoint(function, in...); };
    const Training training{.steps = 3, .micro_batches = 2 * world.size()};
    testing_models::Expected expected([&] { return make_tied<TiedHead>(called); }, training);
    for (const auto& [strategy, options] : testing_models::every_strategy(world.size())) {
      const TestModel model = make_tied<Recomputed<TiedHeadImpl>>(again);
      auto sharded = shard(*model.module, world, options);
      testing_models::train(model, sharded, world, training);
      const auto found = testing_models::whole_weights(*model.module, sharded);
      if (world.rank() != 0) continue;
      EXPECT_THAT(testing_models::differences(expected.weights(), found), IsEmpty()) << strategy;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Of, RecomputedModels,
                         drawn<Job>({{2, "shm"}, {3, "gloo"}}, {{1, "shm"}, {3, "shm"}, {2, "gloo"}}),
                         ::testing::PrintToStringParamName());

// Of the third step, with FullShard; all gathers are foreseen.
CommunicationReport communication_of(const Body& body, World& world, int buffers = 2) {
  const TestModel model = make(body)();
  auto sharded = shard(*model.module, world, {.units = blocks_as_units(), .buffers = buffers});
  AdamW optimizer(sharded);
  CommunicationReport before;
  for (int64_t step = 0; step < 3; ++step) {
    before = sharded.communication();
    model.loss(step * world.size() + world.rank()).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  const CommunicationReport of_step = sharded.communication().since(before);
  EXPECT_EQ(of_step.foreseen_gathers, of_step.gathers);
  EXPECT_EQ(of_step.late_gradients, 0);
  EXPECT_EQ(of_step.reductions, kBlocks + 1);
  return of_step;
}

TEST(RecomputedCommunication, IsThatOfThePlainModel) {
  run_ranks(2, [](World& world) {
    const int64_t gathers = communication_of(plain, world).gathers;
    for (const char* name : {"Each", "EachButProducts", "EverySecond"}) {
      EXPECT_EQ(communication_of(bodies().at(name), world).gathers, gathers) << name;
    }
    // Two blocks that are run again together need both at hand, and a third buffer for the one that is gathered ahead:
    // with two, the first gather ahead gives up a block that is still there.
    const Body& two = bodies().at("TwoAtATime");
    EXPECT_EQ(communication_of(two, world).gathers, gathers + 1);
    EXPECT_EQ(communication_of(two, world, /*buffers=*/3).gathers, communication_of(plain, world, 3).gathers);
  });
}

// In bytes, of a block: its input `x`, or in addition the results of the products that come before the last tensor that
// is saved. Three widths of queries, keys and values, one and a number per token of the attention, two and one of the
// MLP.
TEST(RecomputedMemory, IsTheInputsAndTheKeptProducts) {
  constexpr int64_t kTokens = 2 * kLength, kOfX = kTokens * kWidth * 4;
  const std::map<std::string, int64_t> of_block{{"Each", kOfX}, {"EachButProducts", 8 * kOfX + kTokens * 4}};
  run_ranks(2, [&](World& world) {
    for (const auto& [name, bytes] : of_block) {
      const Body& body = bodies().at(name);
      const TestModel model = make([&](DropoutNet& net, Tensor x) { return body(net, x * net.head->bias.sum()); })();
      const auto activations = [&] {
        int64_t sum = 0;
        const auto moments = preview_activations(*model.module, [&] { return model.loss(0); });
        for (const int64_t storage : moments.back()) sum += storage;
        return sum;
      };
      const int64_t unsharded = activations();
      auto sharded = shard(*model.module, world, {.units = blocks_as_units()});
      const Tensor loss = model.loss(0);
      EXPECT_EQ(sharded.memory().activation_bytes, unsharded) << name;
      EXPECT_EQ(sharded.memory().activations.at(1).bytes, bytes) << name;
    }
  });
}

TEST(RecomputedModel, OfAShardedUnitRefusesAStepInBetween) {
  run_ranks(2, [](World& world) {
    const TestModel model = make(bodies().at("Each"))();
    auto sharded = shard(*model.module, world, {.units = blocks_as_units()});
    AdamW optimizer(sharded);
    model.loss(world.rank()).backward();
    const Tensor loss = model.loss(world.size() + world.rank());
    optimizer.step();
    EXPECT_THROW(loss.backward(), Error);
  });
}

}  // namespace
}  // namespace fsdp::recomputed
