// The options of FSDP and DDP that docs/from_pytorch.md maps to a behaviour, and that no other test is about.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <cmath>

#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::HasSubstr;
using testing_models::expect_same_bits;
using testing_models::make_gpt;
using testing_models::values_for;
using torch::Tensor;

struct NetImpl : torch::nn::Module {
  NetImpl()
      : first(register_module("first", torch::nn::Linear(6, 6))),
        norm(register_module("norm", torch::nn::BatchNorm1d(6))),
        second(register_module("second", torch::nn::Linear(6, 6))) {}
  Tensor encode(const Tensor& x) { return torch::tanh(norm(first(x))); }
  Tensor decode(const Tensor& x) { return second(x); }

  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear second;
};
TORCH_MODULE(Net);

Net make_net(uint64_t seed) {
  torch::manual_seed(seed);
  Net net;
  const torch::NoGradGuard no_grad;
  net->norm->running_mean.normal_();
  return net;
}

// Parameters and buffers as they are in a module that is not sharded.
void expect_state_of(Net& expected, ShardedModel& sharded) {
  const auto parameters = expected->named_parameters(), buffers = expected->named_buffers();
  size_t compared = 0;
  for (const auto& [name, values] : sharded.full_state()) {
    EXPECT_TRUE(torch::equal(values, parameters.contains(name) ? parameters[name] : buffers[name])) << name;
    ++compared;
  }
  EXPECT_EQ(compared, parameters.size() + buffers.size());
}

TEST(FromPyTorch, ProcessGroup) {
  run_ranks(2, [](World& world) {
    World alone = world.split(world.rank());
    torch::nn::Linear model(4, 4);
    auto sharded = shard(*model, alone);
    EXPECT_EQ(sharded.shards()[0].numel(), 16);
    model(torch::ones({1, 4})).sum().backward();
    EXPECT_EQ(sharded.communication().reductions, 1);  // and no rank waits for the other one
    EXPECT_EQ(sharded.communication().gathers, 0);
  });
}

TEST(FromPyTorch, SyncModuleStates) {
  run_ranks(2, [](World& world) {
    Net model = make_net(10 + world.rank()), of_rank0 = make_net(10), own = make_net(10 + world.rank());
    {
      auto sharded = shard(*model, world);
      expect_state_of(of_rank0, sharded);
      EXPECT_TRUE(torch::equal(model->norm->running_mean, of_rank0->norm->running_mean));
    }
    Net other = make_net(10 + world.rank());
    auto sharded = shard(*other, world, {.sync_module_states = false});
    EXPECT_TRUE(torch::equal(other->norm->running_mean, own->norm->running_mean));
    const ShardedParameter& part = sharded.parameters()[0];
    const Tensor values = own->named_parameters()[part.name].flatten();
    EXPECT_TRUE(torch::equal(part.piece, values.slice(0, part.offset, part.offset + part.piece.numel())));
  });
}

// After sharding, on each rank alike; what rank 0 did before is what SyncModuleStates shows.
TEST(FromPyTorch, ParamInitFn) {
  run_ranks(2, [](World& world) {
    const auto initialize = [](Net& net) {
      const torch::NoGradGuard no_grad;
      torch::manual_seed(7);
      for (Tensor& parameter : net->parameters()) torch::nn::init::normal_(parameter, 0.0, 0.02);
    };
    Net model = make_net(10), expected = make_net(10);
    auto sharded = shard(*model, world);
    auto scope = sharded.full_parameters({.write_back = true});
    initialize(model);
    scope.close();
    initialize(expected);
    expect_state_of(expected, sharded);
  });
}

TEST(FromPyTorch, UseOrigParams) {
  run_ranks(2, [](World& world) {
    Net model = make_net(10);
    const auto before = model->named_parameters();
    auto sharded = shard(*model, world);
    const auto after = model->named_parameters();
    EXPECT_EQ(after.keys(), before.keys());
    for (const auto& parameter : before) {
      EXPECT_TRUE(after[parameter.key()].is_same(parameter.value())) << parameter.key();
      EXPECT_EQ(after[parameter.key()].sizes(), parameter.value().sizes());
    }
    AdamW optimizer(sharded, {.groups = {{.patterns = {"*bias"}, .lr = 0.0, .weight_decay = 0.0}}});
    model->decode(model->encode(values_for(world.rank(), {4, 6}))).sum().backward();
    optimizer.step();
    Net initial = make_net(10);
    const auto weights = testing_models::whole_weights(*model, sharded);
    for (const auto& [name, values] : weights) {
      EXPECT_EQ(torch::equal(values, initial->named_parameters()[name]), name.ends_with("bias")) << name;
    }
  });
}

// A chain of blocks, which writes down how many gathers had begun, since the forward did, when each block was left.
struct ChainImpl : torch::nn::Module {
  static constexpr int kBlocks = 6;

  ChainImpl() {
    torch::manual_seed(3);
    for (int i = 0; i < kBlocks; ++i) blocks->push_back(torch::nn::Linear(6, 6));
  }
  Tensor forward(Tensor x, const ShardedModel& sharded) {
    const int64_t before = sharded.communication().gathers;
    begun.clear();
    for (int i = 0; i < kBlocks; ++i) {
      x = blocks[i]->as<torch::nn::Linear>()->forward(x);
      begun.push_back(sharded.communication().gathers - before);
    }
    return x;
  }
  torch::nn::ModuleList blocks = register_module("blocks", torch::nn::ModuleList());
  std::vector<int64_t> begun;
};
TORCH_MODULE(Chain);

// In the recorded step and in the planned one.
void run_twice(Chain& chain, ShardedModel& sharded, World& world) {
  for (int64_t step = 0; step < 2; ++step) {
    chain->forward(values_for(world.rank(), {2, 6}), sharded).sum().backward();
    sharded.zero_grad();
  }
}

TEST(FromPyTorch, BackwardAndForwardPrefetch) {
  run_ranks(2, [](World& world) {
    testing_models::Expected trained([] { return make_gpt(5); }, {.micro_batches = 2});
    for (int prefetch : {0, 1, 3}) {
      SCOPED_TRACE(prefetch);
      const Options options{.buffers = 4, .prefetch = prefetch};
      expect_same_bits(trained, world, options);
      Chain chain;
      auto sharded = shard(*chain, world, options);
      run_twice(chain, sharded, world);
      std::vector<int64_t> expected;
      for (int i = 1; i <= ChainImpl::kBlocks; ++i) expected.push_back(std::min(i + prefetch, ChainImpl::kBlocks));
      EXPECT_EQ(chain->begun, expected);
    }
  });
}

TEST(FromPyTorch, LimitAllGathers) {
  run_ranks(2,
            [](World& world) {
              for (int buffers : {2, 3, 5}) {
                Chain chain;
                auto sharded = shard(*chain, world, {.buffers = buffers, .prefetch = 4});
                run_twice(chain, sharded, world);
                // Each parameter of a block, of 36 and of 6 elements, takes 64.
                EXPECT_EQ(sharded.memory().full_parameter_bytes, buffers * 2 * 64 * 4);
              }
            },
            {.backend = "gloo"});
}

TEST(FromPyTorch, DeviceId) {
  run_ranks(2, [](World& world) {
    torch::nn::Module model;
    model.register_parameter("weight", torch::empty({4}, torch::kMeta));
    EXPECT_THAT(message_of([&] { shard(model, world); }), HasSubstr("the parameter weight is Float on meta"));
  });
}

// A method that is not forward needs no registration.
TEST(FromPyTorch, RegisterFsdpForwardMethod) {
  run_ranks(2, [](World& world) {
    const auto make = [] {
      Net net = make_net(10);
      return testing_models::TestModel{net.ptr(), [net](int64_t b) mutable {
                                         return net->decode(net->encode(values_for(b, {4, 6}))).square().mean();
                                       }};
    };
    expect_same_bits(make, world, {.micro_batches = 2}, {.units = units_of<torch::nn::LinearImpl>()});
  });
}

Tensor gradient_with(World& world, Strategy strategy, std::optional<double> divisor) {
  torch::manual_seed(1);
  torch::nn::Linear model(4, 2);
  auto sharded = shard(*model, world, {.strategy = strategy});
  if (divisor) sharded.set_gradient_divisor(*divisor);
  model(torch::full({1, 4}, 1.0 + world.rank())).sum().backward();
  sharded.clip_grad_norm_(1e9);  // which ends the sum
  std::vector<Tensor> gradients;
  for (const Tensor& piece : sharded.shards()) gradients.push_back(piece.grad().clone());
  return torch::cat(gradients);
}

TEST(FromPyTorch, SetGradientDivideFactor) {
  run_ranks(2, [](World& world) {
    // DDP's mean: the weights' gradients are the inputs, 1 and 2, and the biases' are 1.
    const Tensor mean = gradient_with(world, Strategy::NoShard, std::nullopt);
    EXPECT_TRUE(torch::equal(mean, torch::cat({torch::full({8}, 1.5), torch::ones({2})})));
    for (Strategy strategy : {Strategy::NoShard, Strategy::FullShard}) {
      EXPECT_TRUE(torch::equal(gradient_with(world, strategy, 1.0), 2 * gradient_with(world, strategy, std::nullopt)));
    }
    for (double divisor : {0.0, -1.0, double(INFINITY), double(NAN)}) {
      EXPECT_THAT(message_of([&] { gradient_with(world, Strategy::NoShard, divisor); }),
                  HasSubstr("expected a finite positive number"));
    }
  });
}

TEST(FromPyTorch, BroadcastBuffers) {
  run_ranks(2, [](World& world) {
    Net model = make_net(10);
    auto sharded = shard(*model, world);
    model->encode(values_for(world.rank(), {4, 6})).sum().backward();
    const Tensor own = model->norm->running_mean.clone();
    const std::vector<Tensor> of_ranks = world.all_gather(own);
    EXPECT_FALSE(torch::equal(of_ranks[0], of_ranks[1]));
    sharded.broadcast_buffers();
    EXPECT_TRUE(torch::equal(model->norm->running_mean, of_ranks[0]));
    EXPECT_EQ(model->norm->num_batches_tracked.item<int64_t>(), 1);

    model->norm->running_mean.copy_(own);
    sharded.broadcast_buffers(1);
    EXPECT_TRUE(torch::equal(model->norm->running_mean, of_ranks[1]));
    EXPECT_THAT(message_of([&] { sharded.broadcast_buffers(2); }),
                HasSubstr("found source 2, expected a rank below 2"));
  });
}

}  // namespace
}  // namespace fsdp
