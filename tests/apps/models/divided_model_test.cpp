// Models whose layers are divided into four parts: the same bits on one, two and four ranks.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "api/tensor_parallel/parallel_models.h"
#include "apps/models/small_models.h"
#include "models/gpt2.h"
#include "models/llama.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace models {
namespace {

using fsdp::World;
using fsdp::parallel_models::divisions_of;
using fsdp::parallel_models::expect_parts;
using fsdp::parallel_models::gradients_of;
using fsdp::parallel_models::weights_of;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kFourParts = 4;

class DividedModels : public SmallModels {};
INSTANTIATE_TEST_SUITE_P(Families, DividedModels, all_small_models(), name_of_case);

World alone_in(const World& world) { return world.split(world.rank()); }

Division division_over(const World& axis, bool sequence_parallel = false) {
  return {.tensor = axis, .parts = kFourParts, .sequence_parallel = sequence_parallel};
}

// The losses of two passes, whose gradients are added.
torch::Tensor two_losses(LanguageModel& model) {
  std::vector<torch::Tensor> losses;
  for (const int64_t number : {1, 2}) {
    torch::manual_seed(static_cast<uint64_t>(number));
    const SmallBatch batch = small_batch(number);
    losses.push_back(model.loss(batch.tokens, batch.targets));
    losses.back().backward();
    losses.back() = losses.back().detach();
  }
  losses.push_back(torch::rand({}));  // behind all draws
  return torch::stack(losses);
}

void expect_bits_of_one_process(World& world, const SmallModel& small, bool sequence_parallel) {
  const auto whole = make_small(small, division_over(alone_in(world), sequence_parallel));
  const auto divided = make_small(small, division_over(world, sequence_parallel));
  const auto divisions = divisions_of(*divided);
  const torch::Tensor expected = two_losses(*whole), found = two_losses(*divided);
  EXPECT_TRUE(torch::equal(found, expected)) << found - expected;
  expect_parts(gradients_of(*divided), gradients_of(*whole), divisions);
  divided->eval(), whole->eval();
  for (const int64_t length : {5, 12}) {
    const torch::Tensor tokens = small_batch(3, length).tokens;
    EXPECT_TRUE(torch::equal(divided->forward(tokens), whole->forward(tokens)));
    EXPECT_TRUE(torch::equal(divided->next_token_logits(tokens), whole->next_token_logits(tokens)));
  }
}

TEST_P(DividedModels, HaveTheBitsOfOneProcessOnTwoRanks) {
  run_ranks(2, [](World& world) { expect_bits_of_one_process(world, GetParam(), false); });
}

TEST_P(DividedModels, HaveTheBitsOfOneProcessOnFourRanks) {
  run_ranks(4, [](World& world) { expect_bits_of_one_process(world, GetParam(), false); });
}

TEST_P(DividedModels, HaveTheBitsOfOneProcessOnSlicesOfTheSequence) {
  run_ranks(2, [](World& world) { expect_bits_of_one_process(world, GetParam(), true); });
  run_ranks(4, [](World& world) { expect_bits_of_one_process(world, GetParam(), true); });
}

// Parts are added in another order than the elements of a whole row, so the last bits differ.
TEST_P(DividedModels, HaveTheValuesOfAModelThatIsNotDivided) {
  SmallModel small = GetParam();
  small.dropout = 0;  // which draws other numbers
  run_ranks(2, [&](World& world) {
    for (const bool sequence_parallel : {false, true}) {
      const auto plain = make_small(small), divided = make_small(small, division_over(world, sequence_parallel));
      const auto divisions = divisions_of(*divided);
      expect_parts(weights_of(*divided), weights_of(*plain), divisions);
      const torch::Tensor difference = two_losses(*divided) - two_losses(*plain);
      EXPECT_LT(difference.abs().max().item<double>(), 1e-5);
      expect_parts(gradients_of(*divided), gradients_of(*plain), divisions, 1e-5);
      const torch::Tensor tokens = small_batch(3, 7).tokens;
      EXPECT_LT((divided->forward(tokens) - plain->forward(tokens)).abs().max().item<double>(), 1e-5);
    }
  });
}

TEST_P(DividedModels, HaveTheFirstWeightsOfAPlainModelWhereTheirConstructionIsDeferred) {
  run_ranks(2, [](World& world) {
    const auto plain = make_small(GetParam());
    const torch::Tensor next = torch::rand({3});
    torch::manual_seed(1);
    const auto divided = make_deferred_model(GetParam().config(), torch::kCPU, division_over(world));
    fsdp::materialize(*divided);
    EXPECT_TRUE(torch::equal(torch::rand({3}), next));
    expect_parts(weights_of(*divided), weights_of(*plain), divisions_of(*divided));
  });
}

TEST_P(DividedModels, HaveTheSameBitsDividedAndRecomputed) {
  run_ranks(2, [](World& world) {
    for (const bool sequence_parallel : {false, true}) {
      const auto model = make_small(GetParam(), division_over(world, sequence_parallel));
      const torch::Tensor expected = two_losses(*model);
      const auto gradients = gradients_of(*model);
      for (const bool keeps_products : {false, true}) {
        model->zero_grad();
        model->set_recomputation({.blocks = 9, .keeps_products = keeps_products});
        EXPECT_TRUE(torch::equal(two_losses(*model), expected));
        expect_parts(gradients_of(*model), gradients, {});
      }
    }
  });
}

TEST_P(DividedModels, WriteTheSameTokensDividedWithACache) {
  run_ranks(2, [](World& world) {
    for (const bool sequence_parallel : {false, true}) {
      const auto model = make_small(GetParam(), division_over(world, sequence_parallel));
      model->eval();
      const torch::Tensor tokens = small_batch(3, 9).tokens;
      KeyValueCache cache(model->config().layers);
      for (const auto& [first, count] : {std::pair(0, 5), {5, 1}, {6, 3}}) {
        const torch::Tensor found = model->next_token_logits(tokens.narrow(1, first, count), cache);
        const torch::Tensor expected = model->next_token_logits(tokens.narrow(1, 0, first + count));
        EXPECT_LT((found - expected).abs().max().item<double>(), 1e-5);
      }
    }
  });
}

// Trains one of two replicas, each on two ranks; or both, on one.
fsdp::NamedTensors train_replica(LanguageModel& model, World data) {
  auto sharded = fsdp::shard(model, data, {.units = fsdp::units_of<Gpt2BlockImpl, LlamaBlockImpl>()});
  sharded.set_gradient_divisor(4);
  fsdp::AdamW optimizer(sharded, {.lr = 1e-2});
  for (int64_t step = 0; step < 2; ++step) {
    for (int64_t number = data.rank(); number < 4; number += data.size()) {
      fsdp::seed_micro_batch(5, step, number);
      const SmallBatch batch = small_batch(number);
      model.loss(batch.tokens, batch.targets).backward();
    }
    sharded.clip_grad_norm_(0.5);
    optimizer.step();
    optimizer.zero_grad();
  }
  return sharded.full_state();
}

TEST_P(DividedModels, TrainDividedAndSharded) {
  SmallModel even = GetParam();
  even.is_even = true;
  run_ranks(4, [&](World& world) {
    const fsdp::Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
    for (const bool sequence_parallel : {false, true}) {
      const auto whole = make_small(even, division_over(alone_in(world), sequence_parallel));
      const auto divided = make_small(even, division_over(mesh["tensor"], sequence_parallel));
      const auto divisions = divisions_of(*divided);
      const auto expected = train_replica(*whole, alone_in(world)), found = train_replica(*divided, mesh["data"]);
      expect_parts({found.begin(), found.end()}, {expected.begin(), expected.end()}, divisions);
    }
  });
}

TEST(DivisionOfAModel, IsRefusedWithNumbersThatWouldDo) {
  run_ranks(2, [](World& world) {
    const auto refusal = [&](const ModelConfig& config, const Division& division) {
      return message_of<fsdp::Error>([&] { make_model(config, division); });
    };
    ModelConfig config = SmallModel{}.config();
    EXPECT_THAT(refusal(config, {.tensor = world, .parts = 3}),
                AllOf(HasSubstr("found 3 parts on 2 ranks"), HasSubstr("Use 2, 4 parts.")));
    config.lora = Lora{.targets = {"c_attn"}};
    EXPECT_THAT(refusal(config, {.tensor = world, .parts = 2}), HasSubstr("divided layers have no adapters"));
  });
}

}  // namespace
}  // namespace models
