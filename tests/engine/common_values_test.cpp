// A flipped bit in values that several ranks hold in common is found at the next check, and named.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "engine/model.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using torch::Tensor;

// A model with a buffer that training only reads.
struct Masked : torch::nn::Module {
  Masked()
      : first(register_module("first", torch::nn::Linear(8, 16))),
        second(register_module("second", torch::nn::Linear(16, 8))),
        mask(register_buffer("mask", torch::ones({8}))) {}
  Tensor loss(int64_t b) { return (second(torch::tanh(first(testing_models::values_for(b, {4, 8})))) * mask).sum(); }

  torch::nn::Linear first, second;
  Tensor mask;
};

void flip_bit(const Tensor& values, int64_t element) {
  reinterpret_cast<uint32_t*>(values.data_ptr())[element] ^= 1u << 3;
}

struct Checked {
  Checked(World& world, const Options& options) : world(world), sharded(shard(*model, world, options)) {}
  std::string step() {
    model->loss(steps++ * world.size() + world.rank()).backward();
    const std::string message = message_of([&] { optimizer.step(); });
    optimizer.zero_grad();
    return message;
  }
  // The whole parameter's piece on this rank.
  Tensor piece(const std::string& name) {
    for (const auto& unit : sharded.model().units()) {
      for (size_t i = 0; i < unit->parameters.size(); ++i) {
        const auto range = unit->layout.piece_of(i, world.rank() % unit->layout.shards());
        if (unit->parameters[i].name() == name) return unit->shard.slice(0, range.begin, range.end);
      }
    }
    return {};
  }

  World& world;
  std::shared_ptr<Masked> model = std::make_shared<Masked>();
  ShardedModel sharded;
  AdamW optimizer{sharded, {.lr = 1e-3}};
  int64_t steps = 0;
};

TEST(CommonValues, OfReplicasAreNamedAtTheNextCheckAfterABitIsFlipped) {
  run_ranks(3, [](World& world) {
    Checked checked(world, {.strategy = Strategy::NoShard, .check_common_every = 2});
    EXPECT_EQ(checked.step(), "no error");
    EXPECT_EQ(checked.step(), "no error");
    if (world.rank() == 1) flip_bit(checked.piece("second.bias"), 5);
    EXPECT_EQ(checked.step(), "no error") << "steps 2 and 4 are checked";
    EXPECT_THAT(checked.step(),
                AllOf(HasSubstr("step 4"), HasSubstr("the parameter second.bias"),
                      HasSubstr("the bits of rank 1 differ from those of ranks 0, 2"), HasSubstr("checkpoint")));
  });
}

TEST(CommonValues, OfTwoCopiesDifferWithoutAMajority) {
  run_ranks(4, [](World& world) {
    Checked checked(world, {.strategy = Strategy::HybridShard, .shard_group_size = 2, .check_common_every = 1});
    EXPECT_EQ(checked.step(), "no error");
    const Tensor piece = checked.piece("second.weight");
    if (world.rank() == 3) flip_bit(piece, piece.numel() - 1);
    EXPECT_THAT(checked.step(),
                AllOf(HasSubstr("the parameter second.weight"), HasSubstr("ranks 1, 3 have different")));
  });
}

TEST(CommonValues, AreBuffersToo) {
  run_ranks(3, [](World& world) {
    Checked checked(world, {.check_common_every = 1});
    EXPECT_EQ(checked.step(), "no error");
    if (world.rank() == 2) flip_bit(checked.model->mask, 0);
    EXPECT_THAT(checked.step(),
                AllOf(HasSubstr("the buffer mask"), HasSubstr("rank 2 differ from those of ranks 0, 1")));
  });
}

// A module may keep other values on each rank, such as a count of its own samples.
TEST(CommonValues, AreNotBuffersThatARankHasWritten) {
  run_ranks(2, [](World& world) {
    Checked checked(world, {.check_common_every = 1});
    if (world.rank() == 1) checked.model->mask.mul_(2);
    for (int step = 0; step < 3; ++step) EXPECT_EQ(checked.step(), "no error");
  });
}

TEST(CommonValues, ThatAreEqualPassWithEveryStrategy) {
  run_ranks(4, [](World& world) {
    for (auto [name, options] : testing_models::every_strategy(world.size())) {
      options.check_common_every = 1;
      Checked checked(world, options);
      for (int step = 0; step < 3; ++step) EXPECT_EQ(checked.step(), "no error") << name;
    }
  });
}

TEST(CommonValues, AreEqualAgainAfterALoad) {
  const testing::ScratchDirectory scratch;
  run_ranks(2, [folder = scratch.path() / "saved"](World& world) {
    Checked checked(world, {.strategy = Strategy::NoShard, .check_common_every = 1});
    EXPECT_EQ(checked.step(), "no error");
    const Checkpoint checkpoint{.model = &checked.sharded, .optimizer = &checked.optimizer};
    save_checkpoint(folder, checkpoint);
    if (world.rank() == 0) flip_bit(checked.piece("first.bias"), 0);
    EXPECT_THAT(checked.step(), HasSubstr("the parameter first.bias"));
    load_checkpoint(folder, checkpoint);
    EXPECT_EQ(checked.step(), "no error");
  });
}

TEST(CommonValues, AreComparedEveryPositiveNumberOfSteps) {
  run_ranks(2, [](World& world) {
    Masked model;
    EXPECT_THAT(message_of([&] { shard(model, world, {.check_common_every = -1}); }), HasSubstr("check_common_every"));
    const Options other{.check_common_every = world.rank()};
    EXPECT_THAT(message_of([&] { shard(model, world, other); }), HasSubstr("option check_common_every is 1 on rank 1"));
  });
}

}  // namespace
}  // namespace fsdp
