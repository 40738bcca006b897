// SyncBatchNorm against BatchNorm in one process that sees the batches of all ranks.
//
// Not bit for bit: there one kernel sums over the whole batch, here the sums of the ranks are added. All tolerances are
// some hundred roundings of fp32.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/drawn.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::HasSubstr;
using testing_models::values_for;
using torch::Tensor;
using torch::nn::BatchNormOptions;

constexpr int64_t kChannels = 5;

void expect_close(const Tensor& found, const Tensor& expected) {
  EXPECT_TRUE(torch::allclose(found, expected, 1e-4, 1e-5)) << found << expected;
}

void expect_same_on_all_ranks(World& world, const Tensor& tensor) {
  for (const Tensor& other : world.all_gather(tensor)) EXPECT_TRUE(torch::equal(other, tensor));
}

// Where the rows of a rank begin: rank r has 4r of them, and rank 0 none unless it is alone.
int64_t first_row(const World& world, int rank) { return world.size() == 1 ? 8 * rank : 2 * rank * (rank - 1); }

Tensor rows_of(const World& world, const Tensor& all) {
  return all.slice(0, first_row(world, world.rank()), first_row(world, world.rank() + 1));
}

// Three steps in training, then evaluation.
template <typename BatchNorm>
void expect_as_one_process(World& world, const BatchNormOptions& options, std::vector<int64_t> sizes) {
  SyncBatchNorm found(options, world);
  BatchNorm expected(options);
  sizes.insert(sizes.begin(), first_row(world, world.size()));
  for (int64_t step = 0; step < 3; ++step) {
    const Tensor all = (values_for(step, sizes) + 3).requires_grad_(), factors = values_for(10 + step, sizes);
    const Tensor own = rows_of(world, all).detach().requires_grad_();
    const Tensor output = found(own), whole = expected(all);
    (output * rows_of(world, factors)).sum().backward();
    (whole * factors).sum().backward();
    expect_close(output, rows_of(world, whole));
    expect_close(own.grad(), rows_of(world, all.grad()));
  }
  const Tensor input = values_for(20, sizes);
  if (options.affine()) {
    for (const auto& one : found->named_parameters()) {
      Tensor gradient = one.value().grad();
      world.all_reduce_(gradient);
      expect_close(gradient, expected->named_parameters()[one.key()].grad());
    }
  }
  found->eval();
  expected->eval();
  for (const auto& one : found->named_buffers()) {
    const Tensor buffer = expected->named_buffers()[one.key()];
    expect_close(one.value().to(torch::kFloat32), buffer.to(torch::kFloat32));
    expect_same_on_all_ranks(world, one.value());
    buffer.copy_(one.value());
  }
  EXPECT_TRUE(torch::equal(found(input), expected(input)));
}

class SyncBatchNormOnRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, SyncBatchNormOnRanks, drawn<int>({3}, {1, 4}), ::testing::PrintToStringParamName());

TEST_P(SyncBatchNormOnRanks, IsBatchNormOfAllTheirBatches) {
  run_ranks(GetParam(), [](World& world) {
    using namespace torch::nn;
    const BatchNormOptions options(kChannels);
    expect_as_one_process<BatchNorm1d>(world, options, {kChannels});
    expect_as_one_process<BatchNorm2d>(world, options, {kChannels, 3, 4});
    expect_as_one_process<BatchNorm3d>(world, options, {kChannels, 2, 3, 2});
  });
}

TEST_P(SyncBatchNormOnRanks, HasTheOptionsOfBatchNorm) {
  run_ranks(GetParam(), [](World& world) {
    using torch::nn::BatchNorm2d;
    const std::vector<int64_t> sizes{kChannels, 3, 4};
    expect_as_one_process<BatchNorm2d>(world, BatchNormOptions(kChannels).eps(0.5).momentum(0.3), sizes);
    expect_as_one_process<BatchNorm2d>(world, BatchNormOptions(kChannels).momentum(std::nullopt), sizes);
    expect_as_one_process<BatchNorm2d>(world, BatchNormOptions(kChannels).affine(false), sizes);
    expect_as_one_process<BatchNorm2d>(world, BatchNormOptions(kChannels).track_running_stats(false), sizes);
  });
}

template <typename Norm>
struct NormalizedNet : torch::nn::Module {
  explicit NormalizedNet(Norm batch_norm)
      : first(register_module("first", torch::nn::Linear(6, kChannels))),
        norm(register_module("norm", std::move(batch_norm))),
        second(register_module("second", torch::nn::Linear(kChannels, 2))) {}
  Tensor loss(const Tensor& x) { return second(torch::tanh(norm(first(x)))).square().mean(); }

  torch::nn::Linear first;
  Norm norm;
  torch::nn::Linear second;
};

TEST(SyncBatchNormTest, TrainsInAShardedModelAsBatchNormOnTheWholeBatch) {
  run_ranks(2, [](World& world) {
    torch::manual_seed(3);
    NormalizedNet model(SyncBatchNorm(BatchNormOptions(kChannels), world));
    torch::manual_seed(3);
    NormalizedNet plain(torch::nn::BatchNorm1d{kChannels});
    auto sharded = shard(model, world, {.units = units_by([](const auto&...) { return true; })});
    SGD optimizer(sharded, {.lr = 0.1});
    torch::optim::SGD whole(plain.parameters(), 0.1);
    for (int64_t step = 0; step < 5; ++step) {
      const Tensor all = values_for(step, {8, 6});
      model.loss(all.slice(0, 4 * world.rank(), 4 * world.rank() + 4)).backward();
      optimizer.step();
      optimizer.zero_grad();
      plain.loss(all).backward();
      whole.step();
      whole.zero_grad();
    }
    const auto parameters = plain.named_parameters();
    for (const auto& [name, values] : sharded.full_state()) {
      if (parameters.contains(name)) expect_close(values, parameters[name]);
    }
    EXPECT_EQ(sharded.communication().late_gradients, 0);
  });
}

TEST(SyncBatchNormTest, ComputesInFp32WhatComesIn16Bits) {
  run_ranks(2, [](World& world) {
    torch::manual_seed(3);
    NormalizedNet model(SyncBatchNorm(BatchNormOptions(kChannels), world));
    auto sharded = shard(model, world, {.mixed_precision = {.param_dtype = torch::kBFloat16}});
    EXPECT_EQ(model.norm->weight.scalar_type(), torch::kFloat32);
    model.loss(values_for(world.rank(), {4, 6})).backward();
    sharded.clip_grad_norm_(1.0);
    const Tensor input = values_for(world.rank(), {4, kChannels}).to(torch::kBFloat16);
    SyncBatchNorm norm(BatchNormOptions(kChannels), world), same(BatchNormOptions(kChannels), world);
    const Tensor output = norm(input);
    EXPECT_EQ(output.scalar_type(), torch::kBFloat16);
    EXPECT_TRUE(torch::equal(output, same(input.to(torch::kFloat32)).to(torch::kBFloat16)));
  });
}

TEST(SyncBatchNormTest, RefusesWhatItCannotNormalize) {
  run_ranks(2, [](World& world) {
    SyncBatchNorm norm(BatchNormOptions(kChannels), world);
    EXPECT_THAT(message_of([&] {
                  norm(torch::ones({4, 3}));
                }),
                HasSubstr("input of shape [4, 3], expected [batch, 5, ...]"));
    EXPECT_THAT(message_of([&] {
                  norm(torch::ones({1 - world.rank(), kChannels}));
                }),
                HasSubstr("found 1 values of a feature on all ranks"));
    const Tensor input = values_for(world.rank(), {4, kChannels}).requires_grad_();
    const Tensor loss = norm(input).square().sum();
    EXPECT_THAT(message_of([&] { torch::autograd::grad({loss}, {input}, {}, true, /*create_graph=*/true); }),
                HasSubstr("no second derivative"));
  });
}

}  // namespace
}  // namespace fsdp
