// A vocabulary that is divided among ranks: the embedding, the loss, and both with one weight.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "api/tensor_parallel/parallel_models.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp::parallel_models {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::HasSubstr;

World own_world(const World& world) { return world.split(world.rank()); }

struct HeadCase {
  int64_t entries, width;
  torch::ScalarType dtype = torch::kFloat32;
  LinearCrossEntropyOptions options = {};
};

struct HeadInputs {
  Tensor hidden, weight, targets;
};

// The first and the last entry of the vocabulary are targets, the entries beside each division as well.
HeadInputs inputs_of(const HeadCase& one) {
  torch::manual_seed(5);
  HeadInputs made{torch::randn({2, 5, one.width}).to(one.dtype), torch::randn({one.entries, one.width}).to(one.dtype),
                  torch::randint(one.entries, {2, 5}, torch::kInt64)};
  made.targets.view(-1).narrow(0, 0, 5).copy_(
      torch::tensor({int64_t{0}, one.entries / 2, one.entries / 2 + 1, one.entries - 1, one.options.ignore_index}));
  return made;
}

struct HeadOutcome {
  Tensor loss, of_hidden, of_weight;
};

HeadOutcome outcome_of_head(const HeadInputs& inputs, const Tensor& rows, const LinearCrossEntropyOptions& options) {
  const Tensor hidden = inputs.hidden.clone().requires_grad_(), weight = rows.clone().requires_grad_();
  const Tensor loss = linear_cross_entropy(hidden, weight, inputs.targets, options);
  (loss * torch::linspace(1, 2, loss.numel()).view(loss.sizes())).sum().backward();
  return {loss.detach(), hidden.grad(), weight.grad()};
}

// The bits of one process with as many parts. Against a loss that is not divided, `tolerance`.
void check_head(World& world, HeadCase one, int parts, double tolerance) {
  const HeadInputs inputs = inputs_of(one);
  ParallelEmbedding divided(nn::EmbeddingOptions(one.entries, one.width), world, {.parts = parts});
  const ParameterDivision division = divided->divisions()[0];
  const HeadOutcome plain = outcome_of_head(inputs, inputs.weight, one.options);
  one.options.parts = parts;
  one.options.divided_over = own_world(world);
  const HeadOutcome expected = outcome_of_head(inputs, inputs.weight, one.options);
  one.options.divided_over = world;
  const HeadOutcome found = outcome_of_head(inputs, part_of(inputs.weight, division), one.options);
  EXPECT_TRUE(torch::equal(found.loss, expected.loss)) << found.loss - expected.loss;
  EXPECT_TRUE(torch::equal(found.of_hidden, expected.of_hidden));
  EXPECT_TRUE(torch::equal(found.of_weight, part_of(expected.of_weight, division)));
  const auto distance = [](const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); };
  EXPECT_LT(distance(expected.loss, plain.loss), tolerance);
  EXPECT_LT(distance(expected.of_hidden, plain.of_hidden), tolerance);
  EXPECT_LT(distance(expected.of_weight, plain.of_weight), tolerance);
}

// Megatron#7452 and #1754: smoothing and the logarithm over a part of the vocabulary. Losses near 10 are sums of 50,257
// exponentials in another order: roundings of 1e-6. An error by log(2) is 0.7.
TEST(DividedVocabulary, OfGpt2HasTheBitsOfOneProcess) {
  for (const int ranks : {2, 3, 4}) {
    run_ranks(ranks, [](World& world) {
      check_head(world, {.entries = 50257, .width = 16, .options = {.label_smoothing = 0.1}}, 12, 1e-4);
    });
  }
}

TEST(DividedVocabulary, HasTheBitsOfOneProcessWithAllOptions) {
  run_ranks(2, [](World& world) {
    const std::vector<LinearCrossEntropyOptions> all{{},
                                                     {.ignore_index = 7},
                                                     {.label_smoothing = 1},
                                                     {.z_loss = 0.01},
                                                     {.reduction = LossReduction::Sum},
                                                     {.ignore_index = 66,
                                                      .label_smoothing = 0.2,
                                                      .z_loss = 0.1,
                                                      .reduction = LossReduction::None,
                                                      .chunk_bytes = 400}};
    for (const auto& options : all) {
      check_head(world, {.entries = 67, .width = 7, .options = options}, 2, 1e-4);
      check_head(world, {.entries = 67, .width = 7, .dtype = torch::kFloat64, .options = options}, 4, 1e-11);
      // Products in bf16 have 8 bits; a gradient is below 20.
      check_head(world, {.entries = 67, .width = 7, .dtype = torch::kBFloat16, .options = options}, 4, 0.5);
    }
  });
}

// No loss, no gradients, and no NaN.
TEST(DividedVocabulary, WithoutACountedTargetHasNoLoss) {
  run_ranks(2, [](World& world) {
    for (const int64_t rows : {0, 3}) {
      for (const auto reduction : {LossReduction::Mean, LossReduction::Sum, LossReduction::None}) {
        const HeadInputs inputs{torch::ones({rows, 4}), torch::ones({5, 4}), torch::full({rows}, -100, torch::kInt64)};
        const HeadOutcome found = outcome_of_head(
            inputs, inputs.weight,
            {.label_smoothing = 0.1, .z_loss = 0.1, .reduction = reduction, .divided_over = world, .parts = 2});
        EXPECT_EQ(found.loss.numel(), reduction == LossReduction::None ? rows : 1);
        for (const Tensor& value : {found.loss, found.of_hidden, found.of_weight})
          EXPECT_TRUE(torch::equal(value, torch::zeros_like(value)));
      }
    }
  });
}

// The second backward makes the logits again.
TEST(DividedVocabulary, HasTwoBackwardsOfOneGraph) {
  run_ranks(2, [](World& world) {
    const HeadInputs inputs = inputs_of({.entries = 67, .width = 7});
    const Tensor hidden = inputs.hidden.clone().requires_grad_();
    const Tensor weight = inputs.weight.narrow(0, world.rank() == 0 ? 0 : 34, world.rank() == 0 ? 34 : 33).clone();
    weight.requires_grad_();
    const Tensor loss = linear_cross_entropy(hidden, weight, inputs.targets, {.divided_over = world});
    loss.backward({}, /*retain_graph=*/true);
    const Tensor of_hidden = hidden.grad().clone(), of_weight = weight.grad().clone();
    loss.backward();
    EXPECT_TRUE(torch::equal(hidden.grad(), of_hidden * 2));
    EXPECT_TRUE(torch::equal(weight.grad(), of_weight * 2));
  });
}

TEST(DividedVocabulary, OfOnePartIsTheWhole) {
  run_ranks(1, [](World& world) { check_head(world, {.entries = 67, .width = 7}, 1, 1e-30); });
}

TEST(DividedVocabulary, KeepsTheLogitsOfItsOwnEntries) {
  run_ranks(2, [](World& world) {
    const LinearCrossEntropyOptions options{.divided_over = world};
    EXPECT_EQ(kept_logit_bytes(10, 67, torch::kFloat32, options), int64_t{10} * (world.rank() == 0 ? 34 : 33) * 4);
  });
}

// Entries and targets on both sides of each division, a padding entry and a repeated one.
TEST(ParallelEmbedding, HasTheBitsOfAPlainOne) {
  for (const int ranks : {1, 2, 3, 4}) {
    run_ranks(ranks, [](World& world) {
      const auto options = nn::EmbeddingOptions(13, 6).padding_idx(4);
      torch::manual_seed(3);
      ParallelEmbedding divided(options, world, {.parts = 12});
      torch::manual_seed(3);
      nn::Embedding plain(options);
      const Tensor indices = torch::tensor({{0, 1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12, 7}});
      const Tensor found = divided(indices), expected = plain(indices);
      EXPECT_TRUE(torch::equal(found, expected));
      for (const Tensor& output : {found, expected}) (output + 1).square().sum().backward();  // padding is 0
      EXPECT_TRUE(torch::equal(divided->weight.grad(), part_of(plain->weight.grad(), divided->divisions()[0])));
    });
  }
}

TEST(DividedVocabulary, ThatIsDividedOtherwiseIsAnErrorOnAllRanks) {
  run_ranks(2, [](World& world) {
    const Tensor hidden = torch::ones({3, 4}), targets = torch::zeros({3}, torch::kInt64);
    const auto message_with = [&](int64_t entries, const Tensor& to, int parts) {
      return message_of([&] {
        linear_cross_entropy(hidden, torch::ones({entries, 4}), to, {.divided_over = world, .parts = parts});
      });
    };
    EXPECT_THAT(message_with(world.rank() == 0 ? 4 : 3, targets, 2), HasSubstr("no error"));
    EXPECT_THAT(message_with(world.rank() == 0 ? 3 : 4, targets, 2),
                HasSubstr("rank 0 of the axis has 3 entries of a vocabulary of 7, expected 4"));
    EXPECT_THAT(message_with(4, targets, 3), HasSubstr("found 3 parts on an axis of 2 ranks"));
    EXPECT_THAT(message_with(1, targets, 4), HasSubstr("expected an entry for each part"));
    EXPECT_THAT(message_with(4, torch::full({3}, 8), 2), HasSubstr("found the target 8 at [0], expected 0 to 7"));
    EXPECT_THAT(message_with(4, torch::full({3}, 7), 2), HasSubstr("no error"));
  });
}

}  // namespace
}  // namespace fsdp::parallel_models
