// Divided layers one by one: shapes, first values, sums that count once, shared heads, and errors that say what to do.
#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <random>

#include "api/tensor_parallel/parallel_models.h"
#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp::parallel_models {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

World one_rank_of(const World& world) { return world.split(world.rank()); }

Tensor numbers(std::vector<int64_t> shape, uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed), torch::kFloat32);
}

// The outputs, and the gradients of a loss that counts each output differently.
struct LayerOutcome {
  Tensor output, of_input;
  Values gradients;
};

template <typename Layer>
LayerOutcome outcome_of(Layer& layer, const Tensor& values, const std::function<Tensor(const Tensor&)>& loss_of) {
  const Tensor input = values.detach().clone().requires_grad_();
  const Tensor output = layer->forward(input);
  loss_of(output).backward();
  return {output.detach(), input.grad(), gradients_of(*layer)};
}

Tensor weighted(const Tensor& output) { return (output * numbers(output.sizes().vec(), 5)).sum(); }

template <typename Layer, typename Options>
Layer made(const Options& options, const World& axis, const TensorParallelOptions& parallel = {}) {
  torch::manual_seed(3);
  return Layer(options, axis, parallel);
}

// pytorch#58005, torchtitan#4245: the bias of a row-parallel layer, or its gradient, counted once for each rank. Whole
// numbers: sums are exact, and so equal to those of a plain layer.
TEST(RowParallel, AddsItsBiasOnce) {
  for (const int ranks : {1, 2, 4}) {
    run_ranks(ranks, [](World& world) {
      auto layer = made<RowParallelLinear>(nn::LinearOptions(8, 3), world);
      {
        torch::NoGradGuard no_grad;
        layer->weight.fill_(2), layer->bias.copy_(torch::tensor({1.F, 10.F, 100.F}));
      }
      const Tensor input = torch::ones({2, 8 / world.size()});
      const auto found = outcome_of(layer, input, [](const Tensor& output) { return output.sum(); });
      EXPECT_TRUE(torch::equal(found.output, torch::tensor({17.F, 26.F, 116.F}).expand({2, 3})));
      EXPECT_TRUE(torch::equal(found.gradients.at("bias"), torch::full({3}, 2.F)));
      EXPECT_TRUE(torch::equal(found.of_input, torch::full_like(input, 6)));
    });
  }
}

// Products of matrices with other strides or another alignment have other bits for about one size in five.
TEST(ParallelLayers, OfAnySizeHaveTheBitsOfOneProcess) {
  run_ranks(2, [](World& world) {
    const World alone = one_rank_of(world);
    const TensorParallelOptions parallel{.parts = 4};
    std::mt19937 random(1);
    const auto draw = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(1, most)(random); };
    for (int trial = 0; trial < 40; ++trial) {
      const int64_t rows = draw(70), features = draw(70), of_part = draw(40), divided = of_part * parallel.parts;
      SCOPED_TRACE(fmt::format("{} rows, {} features, {} of a part", rows, features, of_part));
      const Tensor whole_input = numbers({rows, features}, 1), whole_inner = numbers({rows, divided}, 2);
      const int64_t first = world.rank() * divided / 2, own = divided / 2;
      const auto own_columns = [&](const Tensor& whole) { return whole.narrow(1, first, own); };
      const nn::LinearOptions up(features, divided), down(divided, features);

      auto column = made<ColumnParallelLinear>(up, world, parallel),
           whole_column = made<ColumnParallelLinear>(up, alone, parallel);
      const Tensor factors = numbers({rows, divided}, 5);
      const auto found =
          outcome_of(column, whole_input, [&](const Tensor& y) { return (y * own_columns(factors)).sum(); });
      const auto expected = outcome_of(whole_column, whole_input, [&](const Tensor& y) { return (y * factors).sum(); });
      EXPECT_TRUE(torch::equal(found.output, own_columns(expected.output)));
      EXPECT_TRUE(torch::equal(found.of_input, expected.of_input));
      expect_parts(found.gradients, expected.gradients, divisions_of(*column));

      auto row = made<RowParallelLinear>(down, world, parallel),
           whole_row = made<RowParallelLinear>(down, alone, parallel);
      const auto found_sum = outcome_of(row, own_columns(whole_inner), weighted),
                 expected_sum = outcome_of(whole_row, whole_inner, weighted);
      EXPECT_TRUE(torch::equal(found_sum.output, expected_sum.output));
      EXPECT_TRUE(torch::equal(found_sum.of_input, own_columns(expected_sum.of_input)));
      expect_parts(found_sum.gradients, expected_sum.gradients, divisions_of(*row));
    }
  });
}

// pytorch#168058: other first values than those of one process.
class FirstValues : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, FirstValues, drawn<int>({2}, {1, 4}), ::testing::PrintToStringParamName());

TEST_P(FirstValues, AreThoseOfPlainLayersAndLeaveTheGeneratorInTheSameState) {
  run_ranks(GetParam(), [](World& world) {
    const auto make_plain = [] {
      return nn::Sequential(nn::Embedding(nn::EmbeddingOptions(13, 6).padding_idx(2)), nn::Linear(6, 8),
                            nn::Linear(8, 5), nn::Linear(nn::LinearOptions(6, 4).bias(false)), nn::Linear(4, 12));
    };
    const auto make_divided = [world] {
      return nn::Sequential(
          ParallelEmbedding(nn::EmbeddingOptions(13, 6).padding_idx(2), world),
          ColumnParallelLinear(nn::LinearOptions(6, 8), world), RowParallelLinear(nn::LinearOptions(8, 5), world),
          ColumnParallelLinear(nn::LinearOptions(6, 4).bias(false), world),
          ColumnParallelLinear(nn::LinearOptions(4, 12), world, TensorParallelOptions{.blocks = {{4}, {2, 2}, {4}}}));
    };
    torch::manual_seed(3);
    auto plain = make_plain();
    const Tensor next = torch::rand({4});
    torch::manual_seed(3);
    auto divided = make_divided();
    EXPECT_TRUE(torch::equal(torch::rand({4}), next));
    torch::manual_seed(3);
    auto deferred = deferred_init(make_divided);
    EXPECT_TRUE(is_deferred(deferred->parameters()[0]));
    materialize(*deferred);
    EXPECT_TRUE(torch::equal(torch::rand({4}), next));
    expect_parts(weights_of(*divided), weights_of(*plain), divisions_of(*divided));
    expect_parts(weights_of(*deferred), weights_of(*plain), divisions_of(*divided));
    torch::manual_seed(3);
    auto unit = deferred_init(make_divided);
    World alone = one_rank_of(world);
    ShardedModel sharded = shard(*unit, alone);
    EXPECT_TRUE(torch::equal(torch::rand({4}), next));
    const auto scope = sharded.full_parameters();
    expect_parts(weights_of(*unit), weights_of(*plain), divisions_of(*divided));
  });
}

// ms-swift#7944: dropout of tensor that ranks have whole, with numbers of the micro-batch.
class DroppedActivations : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, DroppedActivations, ::testing::Values(2, 4), ::testing::PrintToStringParamName());

TEST_P(DroppedActivations, HaveTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    const auto outputs_of = [](const World& axis) {
      auto up = made<ColumnParallelLinear>(nn::LinearOptions(16, 64), axis, {.parts = 4});
      auto down = made<RowParallelLinear>(nn::LinearOptions(64, 16), axis, {.parts = 4});
      seed_micro_batch(1, 2, 3);
      const Tensor dropped = torch::dropout(down(torch::gelu(up(numbers({6, 16}, 1)))), 0.5, true);
      dropped.square().sum().backward();
      return dropped.detach();
    };
    const Tensor found = outputs_of(world), expected = outputs_of(one_rank_of(world));
    EXPECT_TRUE(torch::equal(found, expected));
    EXPECT_GT(found.eq(0).sum().item<int64_t>(), 0);
    // Megatron-DeepSpeed#276: one rank had drawn more.
    const auto of_ranks = world.all_gather(torch::rand({4}));
    for (const Tensor& of_rank : of_ranks) EXPECT_TRUE(torch::equal(of_rank, of_ranks[0]));
  });
}

TEST(ColumnParallel, GathersItsOutputInTheOrderOfTheWholeLayer) {
  run_ranks(2, [](World& world) {
    for (const std::vector<FeatureBlock>& blocks :
         {std::vector<FeatureBlock>{}, std::vector<FeatureBlock>{{8, 2}, {2, 4}, {8}}}) {
      const nn::LinearOptions options(8, 32);
      const TensorParallelOptions parallel{.parts = 4, .gather_output = true, .blocks = blocks};
      auto divided = made<ColumnParallelLinear>(options, world, parallel);
      auto whole = made<ColumnParallelLinear>(options, one_rank_of(world), parallel);
      torch::manual_seed(3);
      nn::Linear plain(options);
      const Tensor input = numbers({3, 5, 8}, 1);
      const auto found = outcome_of(divided, input, weighted), expected = outcome_of(whole, input, weighted);
      EXPECT_TRUE(torch::equal(found.output, expected.output));
      EXPECT_TRUE(torch::equal(found.of_input, expected.of_input));
      expect_parts(found.gradients, expected.gradients, divisions_of(*divided));
      // Sums of 8 and 32 fp32 products in another order.
      const auto values = outcome_of(plain, input, weighted);
      EXPECT_TRUE(found.output.allclose(values.output, 1e-5, 1e-5));
      EXPECT_TRUE(found.of_input.allclose(values.of_input, 1e-5, 1e-5));
    }
  });
}

// torchtitan#2577, LlamaFactory#10794: fewer key heads than ranks. Here also a rank with parts of two heads, one of
// which it shares: 3 heads over 6 parts on 2 ranks.
TEST(ColumnParallel, ShareHeadsThatAreFewerThanParts) {
  struct Sharing {
    int ranks, parts;
    int64_t heads;
    std::vector<int64_t> heads_of_ranks;  // held
  };
  for (const Sharing& one : {Sharing{4, 4, 2, {1, 1, 1, 1}}, Sharing{2, 4, 2, {1, 1}}, Sharing{2, 6, 3, {2, 2}},
                             Sharing{3, 3, 1, {1, 1, 1}}, Sharing{2, 4, 4, {2, 2}}}) {
    run_ranks(one.ranks, [one](World& world) {
      constexpr int64_t kSize = 3, kIn = 5;
      const nn::LinearOptions options(kIn, one.heads * kSize);
      const TensorParallelOptions parallel{.parts = one.parts, .blocks = {{one.heads, kSize}}};
      auto divided = made<ColumnParallelLinear>(options, world, parallel);
      auto whole = made<ColumnParallelLinear>(options, one_rank_of(world), parallel);
      EXPECT_EQ(divided->weight.size(0), one.heads_of_ranks[static_cast<size_t>(world.rank())] * kSize);
      const int64_t features = std::max<int64_t>(one.parts, one.heads) * kSize, own = features / world.size();
      EXPECT_EQ(divided->block_features(), std::vector<int64_t>{own});
      EXPECT_EQ(whole->block_features(), std::vector<int64_t>{features});
      const Tensor factors = numbers({7, features}, 5), input = numbers({7, kIn}, 1);
      const Tensor own_factors = factors.narrow(1, world.rank() * own, own);
      const auto found = outcome_of(divided, input, [&](const Tensor& y) { return (y * own_factors).sum(); });
      const auto expected = outcome_of(whole, input, [&](const Tensor& y) { return (y * factors).sum(); });
      EXPECT_TRUE(torch::equal(found.output, expected.output.narrow(1, world.rank() * own, own)));
      EXPECT_TRUE(torch::equal(found.of_input, expected.of_input));
      expect_parts(found.gradients, expected.gradients, divisions_of(*divided));
      // Against a plain layer whose output is repeated for each part: another order of sums of up to 7 products.
      torch::manual_seed(3);
      nn::Linear plain(options);
      const auto values = outcome_of(plain, input, [&](const Tensor& y) {
        const int64_t sharers = std::max<int64_t>(one.parts / one.heads, 1);
        return (y.view({7, one.heads, 1, kSize}).expand({7, one.heads, sharers, kSize}).reshape({7, -1}) * factors)
            .sum();
      });
      for (const char* name : {"weight", "bias"})
        EXPECT_TRUE(expected.gradients.at(name).allclose(values.gradients.at(name), 1e-5, 1e-5)) << name;
    });
  }
}

TEST(ParallelLayers, OfSixteenBitsHaveTheBitsOfOneProcess) {
  run_ranks(2, [](World& world) {
    const auto outcome_over = [](const World& axis) {
      const TensorParallelOptions parallel{.parts = 4};
      nn::Sequential layers(made<ColumnParallelLinear>(nn::LinearOptions(32, 64), axis, parallel),
                            made<RowParallelLinear>(nn::LinearOptions(64, 32), axis, parallel));
      layers->to(torch::kBFloat16);
      return std::pair(outcome_of(layers, numbers({6, 32}, 1).to(torch::kBFloat16), weighted), divisions_of(*layers));
    };
    const auto [found, divisions] = outcome_over(world);
    const auto expected = outcome_over(one_rank_of(world)).first;
    EXPECT_EQ(found.output.scalar_type(), torch::kBFloat16);
    EXPECT_TRUE(torch::equal(found.output, expected.output));
    EXPECT_TRUE(torch::equal(found.of_input, expected.of_input));
    expect_parts(found.gradients, expected.gradients, divisions);
  });
}

// Bits of a rank whose unit is gathered and freed, recomputed, and in bf16.
TEST(ParallelLayers, AreShardedAsAnyOther) {
  run_ranks(4, [](World& world) {
    const Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
    World data = mesh["data"], alone = one_rank_of(world);
    const auto make = [](const World& axis) {
      const TensorParallelOptions parallel{.parts = 2};
      return nn::Sequential(made<ColumnParallelLinear>(nn::LinearOptions(32, 64), axis, parallel),
                            made<RowParallelLinear>(nn::LinearOptions(64, 32), axis, parallel));
    };
    auto divided = make(mesh["tensor"]), whole = make(alone);
    const auto divisions = divisions_of(*divided);
    Options options;
    options.mixed_precision.param_dtype = torch::kBFloat16;
    ShardedModel sharded = shard(*divided, data, options), expected = shard(*whole, alone, options);
    AdamW optimizer(sharded, {.lr = 1e-2}), expected_optimizer(expected, {.lr = 1e-2});
    sharded.set_gradient_divisor(2), expected.set_gradient_divisor(2);
    const auto backward_of = [](nn::Sequential& layers, uint64_t micro_batch) {
      const Tensor output = activation_checkpoint([&](const Tensor& x) { return layers->forward(x); },
                                                  numbers({6, 32}, micro_batch).requires_grad_());
      output.to(torch::kFloat32).square().sum().backward();
    };
    for (uint64_t step = 0; step < 3; ++step) {
      backward_of(divided, step * 2 + static_cast<uint64_t>(mesh.coordinate("data")));
      for (const uint64_t micro_batch : {0, 1}) backward_of(whole, step * 2 + micro_batch);
      optimizer.step(), optimizer.zero_grad();
      expected_optimizer.step(), expected_optimizer.zero_grad();
    }
    const auto scope = sharded.full_parameters();
    const auto expected_scope = expected.full_parameters();
    expect_parts(weights_of(*divided), weights_of(*whole), divisions);
  });
}

TEST(ParallelLayers, HaveOutputsThatMayBeWritten) {
  for (const int ranks : {1, 2}) {
    run_ranks(ranks, [](World& world) {
      for (const bool sequence_parallel : {false, true}) {
        const TensorParallelOptions parallel{.parts = 2, .sequence_parallel = sequence_parallel};
        ColumnParallelLinear up(nn::LinearOptions(4, 8), world, parallel);
        RowParallelLinear down(nn::LinearOptions(8, 4), world, parallel);
        const Tensor input = numbers({2, 4, 4}, 1).requires_grad_();
        down(up(input).relu_()).add_(1).sum().backward();
        EXPECT_GT(input.grad().abs().sum().item<float>(), 0);
      }
    });
  }
}

TEST(ParallelLayers, AreCloned) {
  run_ranks(2, [](World& world) {
    nn::Sequential layers(ParallelEmbedding(nn::EmbeddingOptions(5, 4), world),
                          ColumnParallelLinear(nn::LinearOptions(4, 8), world),
                          RowParallelLinear(nn::LinearOptions(8, 4), world));
    const auto copy = std::dynamic_pointer_cast<nn::SequentialImpl>(layers->clone());
    const Tensor indices = torch::tensor({0, 4, 2});
    EXPECT_TRUE(torch::equal(copy->forward(indices), layers->forward(indices)));
    EXPECT_NE(copy->parameters()[0].data_ptr(), layers->parameters()[0].data_ptr());
  });
}

TEST(ParallelLayers, MayBeFrozen) {
  run_ranks(2, [](World& world) {
    nn::Sequential layers(ColumnParallelLinear(nn::LinearOptions(4, 8), world),
                          RowParallelLinear(nn::LinearOptions(8, 4), world));
    for (auto& parameter : layers->parameters()) parameter.set_requires_grad(false);
    const Tensor input = numbers({2, 4}, 1).requires_grad_();
    layers->forward(input).sum().backward();
    EXPECT_GT(input.grad().abs().sum().item<float>(), 0);
    EXPECT_FALSE(layers->parameters()[0].grad().defined());
  });
}

// Named by their layer, with numbers that would do.
TEST(ParallelLayers, SayWhichSizesWouldDo) {
  run_ranks(2, [](World& world) {
    const auto column = [&](int64_t features, TensorParallelOptions parallel) {
      return message_of([&] { ColumnParallelLinear(nn::LinearOptions(4, features), world, std::move(parallel)); });
    };
    EXPECT_THAT(column(12, {.parts = 8}), AllOf(HasSubstr("ColumnParallelLinear: found 12 out_features and 8 parts"),
                                                HasSubstr("Use 2, 4, 6, 12 parts, or 16 features.")));
    EXPECT_THAT(column(7, {}), HasSubstr("Use 8 features, or another number of ranks."));
    EXPECT_THAT(column(12, {.parts = 3}),
                AllOf(HasSubstr("found 3 parts on an axis of 2 ranks"), HasSubstr("Use 4 parts.")));
    EXPECT_THAT(column(12, {.blocks = {{4}, {4}}}), HasSubstr("found blocks of 8 features together, expected 12"));
    EXPECT_THAT(column(12, {.parts = 4, .blocks = {{6}, {6}}}), HasSubstr("found 6 features of a block and 4 parts"));
    EXPECT_THAT(column(12, {.parts = 4, .blocks = {{3, 4}}}),
                AllOf(HasSubstr("found a block of 3 heads and 4 parts"), HasSubstr("Use 3 parts or 4 heads.")));
    const auto row = [&](int64_t features, TensorParallelOptions parallel) {
      return message_of([&] { RowParallelLinear(nn::LinearOptions(features, 4), world, std::move(parallel)); });
    };
    EXPECT_THAT(row(7, {}), HasSubstr("RowParallelLinear: found 7 in_features and 2 parts"));
    EXPECT_THAT(row(8, {.gather_output = true}), HasSubstr("found gather_output, which is for ColumnParallelLinear"));
    EXPECT_THAT(row(8, {.blocks = {{8}}}), HasSubstr("found blocks, which are for ColumnParallelLinear"));
    RowParallelLinear layer(nn::LinearOptions(8, 4), world);
    EXPECT_THAT(message_of([&] {
                  layer(torch::ones({2, 8}));
                }),
                HasSubstr("found all 8 input features, expected the 4"));
    EXPECT_THAT(message_of([&] { layer(torch::ones({2, 3})); }), HasSubstr("of shape [2, 3], expected [..., 4]"));
    EXPECT_THAT(message_of([&] { layer(torch::ones({2, 4}, torch::kFloat64)); }), HasSubstr("expected one dtype"));
    RowParallelLinear slices(nn::LinearOptions(8, 4), world, {.sequence_parallel = true});
    EXPECT_THAT(message_of([&] { slices(torch::ones({2, 4})); }), HasSubstr("expected [batch, sequence, 4]"));
    EXPECT_THAT(message_of([&] { slices(torch::ones({2, 5, 4})); }), HasSubstr("a multiple of 2. Pad the sequence."));
    EXPECT_THAT(message_of([&] { sequence_slice(torch::ones({2, 5, 4}), world); }), HasSubstr("sequence_slice"));
    EXPECT_THAT(message_of([&] { ParallelEmbedding(nn::EmbeddingOptions(1, 4), world); }),
                HasSubstr("found 1 entries"));
    EXPECT_THAT(message_of([&] { ParallelEmbedding(nn::EmbeddingOptions(4, 4).max_norm(1), world); }),
                HasSubstr("found max_norm"));
    ParallelEmbedding embedding(nn::EmbeddingOptions(5, 4), world);
    EXPECT_THAT(message_of([&] {
                  embedding(torch::tensor({0, 5}));
                }),
                HasSubstr("found indices from 0 to 5, expected 0 to 4"));
    const Tensor input = torch::ones({2, 4}).requires_grad_();
    EXPECT_THAT(message_of([&] { torch::autograd::grad({layer(input).sum()}, {input}, {}, true, true); }),
                HasSubstr("it has no second derivative"));
  });
}

}  // namespace
}  // namespace fsdp::parallel_models
