// A run that was saved goes on with the same bits; what is not a checkpoint of this model changes nothing.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <array>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_models::make_gpt;

std::filesystem::path scratch(const std::string& name) {
  return std::filesystem::temp_directory_path() / ("fsdp-checkpoint-test-" + name);
}

void train(testing_models::TestModel& model, ShardedModel& sharded, Optimizer& optimizer, World& world, int first,
           int last) {
  for (int step = first; step < last; ++step) {
    model.loss(step * world.size() + world.rank()).backward();
    sharded.clip_grad_norm_(1.0);
    optimizer.step();
    optimizer.zero_grad();
  }
}

TEST(Checkpoint, ARunGoesOnWithTheSameBits) {
  run_ranks(2, [](World& world) {
    const auto directory = scratch("resume");
    if (world.rank() == 0) std::filesystem::remove_all(directory);
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded);
    train(model, sharded, optimizer, world, 0, 3);
    save_checkpoint(directory / "step-3", {.model = &sharded, .optimizer = &optimizer, .step = 3});
    const std::map<std::string, std::string> notes = {{"data", "epoch 2, \"place\" 17\n"}, {"empty", ""}};
    save_checkpoint(directory / "step-3",
                    {.model = &sharded, .optimizer = &optimizer, .step = 3, .notes = notes});  // replaces
    EXPECT_EQ(checkpoint_notes(directory / "step-3"), notes);
    EXPECT_THAT(message_of([&] {
                  save_checkpoint(directory / "step-3", {.model = &sharded, .notes = {{"bytes", "\xff"}}});
                }),
                HasSubstr("have to be UTF-8"));
    EXPECT_EQ(checkpoint_notes(directory / "step-3"), notes);
    EXPECT_EQ(latest_checkpoint(directory), directory / "step-3");
    train(model, sharded, optimizer, world, 3, 6);

    auto again = make_gpt();
    auto resumed = shard(*again.module, world);
    AdamW other(resumed);
    EXPECT_EQ(load_checkpoint(directory / "step-3", {.model = &resumed, .optimizer = &other}), 3);
    train(again, resumed, other, world, 3, 6);
    const auto expected = sharded.shards(), found = resumed.shards();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(torch::equal(expected[i], found[i]));
    world.barrier();
    if (world.rank() == 0) {
      EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 1);  // nothing half-written
      std::filesystem::remove_all(directory);
    }
  });
}

template <typename OptimizerType, typename Options>
void expect_same_bits_after_loading(World& world, const Options& options) {
  const auto directory = scratch("optimizers");
  auto model = make_gpt(), again = make_gpt();
  auto sharded = shard(*model.module, world), resumed = shard(*again.module, world);
  OptimizerType optimizer(sharded, options), other(resumed, options);
  train(model, sharded, optimizer, world, 0, 2);
  save_checkpoint(directory, {.model = &sharded, .optimizer = &optimizer});
  train(model, sharded, optimizer, world, 2, 4);
  load_checkpoint(directory, {.model = &resumed, .optimizer = &other});
  train(again, resumed, other, world, 2, 4);
  const auto expected = sharded.shards(), found = resumed.shards();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(torch::equal(expected[i], found[i])) << i;
  world.barrier();
  if (world.rank() == 0) std::filesystem::remove_all(directory);
}

TEST(Checkpoint, HoldsTheStateOfEveryOptimizer) {
  run_ranks(2, [](World& world) {
    expect_same_bits_after_loading<Adam>(world, AdamOptions{.lr = 1e-2});
    expect_same_bits_after_loading<SGD>(world, SGDOptions{.lr = 0.1});
    expect_same_bits_after_loading<SGD>(world, SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5});
    expect_same_bits_after_loading<Muon>(world, MuonOptions{.lr = 1e-2});
    for (StateDtype dtype : {StateDtype::BFloat16, StateDtype::Block8}) {
      expect_same_bits_after_loading<AdamW>(world, AdamWOptions{.lr = 1e-2, .state_dtype = dtype});
      expect_same_bits_after_loading<Adam>(world, AdamOptions{.lr = 1e-2, .state_dtype = dtype});
    }
    expect_same_bits_after_loading<Adam>(world, AdamOptions{.state_dtype = StateDtype::BFloat16, .amsgrad = true});
  });
}

TEST(Checkpoint, OfAnotherStateDtypeIsAnErrorThatNamesBoth) {
  constexpr std::array kDtypes{std::pair{StateDtype::Float32, "Float32"}, std::pair{StateDtype::BFloat16, "BFloat16"},
                               std::pair{StateDtype::Block8, "Block8"}};
  run_ranks(2, [&](World& world) {
    const auto directory = scratch("state-dtypes");
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    for (const auto& [saved, saved_name] : kDtypes) {
      AdamW optimizer(sharded, {.state_dtype = saved});
      save_checkpoint(directory, {.model = &sharded, .optimizer = &optimizer});
      for (const auto& [wanted, wanted_name] : kDtypes) {
        AdamW other(sharded, {.state_dtype = wanted});
        const std::string message =
            message_of([&] { load_checkpoint(directory, {.model = &sharded, .optimizer = &other}); });
        if (wanted == saved) {
          EXPECT_EQ(message, "no error");
        } else {
          EXPECT_THAT(message, AllOf(HasSubstr(std::string("state was kept as ") + saved_name),
                                     HasSubstr(std::string("is kept as ") + wanted_name + " here")));
        }
      }
    }
    world.barrier();
    if (world.rank() == 0) std::filesystem::remove_all(directory);
  });
}

// NoShard holds the whole model on each rank: one file, whatever the number of ranks.
TEST(Checkpoint, OfPackedStateGoesOnWithOtherRanksThatHoldTheSameShards) {
  const fsdp::testing::ScratchDirectory scratch;
  for (StateDtype dtype : {StateDtype::BFloat16, StateDtype::Block8}) {
    const auto directory = scratch.path() / std::to_string(static_cast<int>(dtype));
    const auto body = [&](int first, int last, World& world) {
      auto model = make_gpt();
      auto sharded = shard(*model.module, world, {.strategy = Strategy::NoShard});
      sharded.set_gradient_divisor(6);
      AdamW optimizer(sharded, {.lr = 1e-2, .state_dtype = dtype});
      if (first > 0) load_checkpoint(directory / "middle", {.model = &sharded, .optimizer = &optimizer});
      for (int step = first; step < last; ++step) {
        for (int64_t b = world.rank(); b < 6; b += world.size()) model.loss(step * 6 + b).backward();
        optimizer.step();
        optimizer.zero_grad();
      }
      save_checkpoint(directory / (first > 0  ? "resumed"
                                   : last > 2 ? "whole"
                                              : "middle"),
                      {.model = &sharded, .optimizer = &optimizer});
    };
    run_ranks(3, [&](World& world) { body(0, 2, world); });
    run_ranks(2, [&](World& world) { body(2, 4, world); });
    run_ranks(1, [&](World& world) {
      body(0, 4, world);
      const std::string file = "shard-00001-of-00001.safetensors";
      const auto expected = checkpoint::read_safetensors(directory / "whole" / file);
      const auto found = checkpoint::read_safetensors(directory / "resumed" / file);
      EXPECT_EQ(expected.size(), found.size());
      for (const auto& [name, tensor] : expected) EXPECT_TRUE(torch::equal(tensor, found.at(name))) << name;
    });
  }
}

TEST(Checkpoint, OfAnotherModelIsAnErrorThatNamesTheDifferences) {
  run_ranks(2, [](World& world) {
    const auto directory = scratch("other");
    auto model = make_gpt(), wider = make_gpt(3, 36), deeper = make_gpt(4);
    auto sharded = shard(*model.module, world), wide = shard(*wider.module, world), deep = shard(*deeper.module, world);
    save_checkpoint(directory, {.model = &sharded});
    const auto before = wide.shards()[0].clone();
    EXPECT_THAT(message_of([&] { load_checkpoint(directory, {.model = &wide}); }),
                AllOf(HasSubstr("another model"), HasSubstr("tokens.weight has shape [61, 32], expected [61, 36]")));
    EXPECT_TRUE(torch::equal(before, wide.shards()[0]));
    EXPECT_THAT(message_of([&] { load_checkpoint(directory, {.model = &deep}); }),
                HasSubstr("blocks.3.first.weight is missing"));
    AdamW optimizer(sharded);
    EXPECT_THAT(message_of([&] { load_checkpoint(directory, {.model = &sharded, .optimizer = &optimizer}); }),
                HasSubstr("saved with this optimizer"));
    EXPECT_THAT(message_of([&] { load_checkpoint(directory / "none", {.model = &sharded}); }),
                HasSubstr("not a checkpoint"));
    world.barrier();
    if (world.rank() == 0) std::filesystem::remove_all(directory);
  });
}

TEST(Checkpoint, WithTheOptimizerOfAnotherModelIsAnErrorOfEveryCall) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    testing_models::TestModel model = testing_models::make_gpt(), other = testing_models::make_gpt();
    ShardedModel sharded = shard(*model.module, world), of_other = shard(*other.module, world);
    AdamW optimizer(sharded), others(of_other);
    const fs::path saved = scratch.path() / "saved";
    save_checkpoint(saved, {.model = &sharded, .optimizer = &optimizer});
    const Checkpoint mixed{.model = &sharded, .optimizer = &others};
    for (const std::function<void()>& call : {std::function<void()>([&] { save_checkpoint(saved, mixed); }),
                                              {[&] { save_checkpoint_async(saved, mixed).wait(); }},
                                              {[&] { load_checkpoint(saved, mixed); }}}) {
      EXPECT_THAT(message_of<Error>(call), HasSubstr("the optimizer is one of another model"));
    }
    load_checkpoint(saved, {.model = &sharded, .optimizer = &optimizer});
  });
}

// Names are any bytes of UTF-8; elements of an expanded tensor share memory.
TEST(Checkpoint, HasOddNotesAndBuffers) {
  const ScratchDirectory scratch;
  const std::string key("a\0b", 3);
  run_ranks(2, [&](World& world) {
    torch::nn::Linear net(3, 2);
    const torch::Tensor one = torch::full({1}, 5.f), shared = net->register_buffer("shared", one.expand({2, 3}));
    net->register_buffer("count", torch::arange(3).to(torch::kUInt16));
    auto sharded = shard(*net, world);
    save_checkpoint(scratch.path() / "saved", {.model = &sharded, .notes = {{key, "x"}, {"", "y"}}});
    one.zero_();
    load_checkpoint(scratch.path() / "saved", {.model = &sharded});
    EXPECT_TRUE(torch::equal(shared, torch::full({2, 3}, 5.f)));
    EXPECT_EQ(checkpoint_notes(scratch.path() / "saved"), (std::map<std::string, std::string>{{key, "x"}, {"", "y"}}));
  });
}

TEST(Checkpoint, AFileThatIsCutOffIsAnErrorOnEveryRank) {
  run_ranks(2, [](World& world) {
    const auto directory = scratch("cut");
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    save_checkpoint(directory, {.model = &sharded});
    const auto file = directory / "shard-00002-of-00002.safetensors";
    if (world.rank() == 0) std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
    world.barrier();
    EXPECT_THAT(message_of([&] { load_checkpoint(directory, {.model = &sharded}); }), HasSubstr("cut off"));
    world.barrier();
    if (world.rank() == 0) std::filesystem::remove_all(directory);
  });
}

TEST(Checkpoint, ThatCannotBeWrittenIsAnErrorAndLeavesNothing) {
  run_ranks(2, [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    EXPECT_THAT(message_of([&] { save_checkpoint("/proc/none/checkpoint", {.model = &sharded}); }),
                HasSubstr("/proc/none"));
  });
}

TEST(SaveCheckpoint, RefusesNamesOfWhatIsUnfinishedAndNone) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    torch::nn::Linear net(3, 2);
    auto sharded = shard(*net, world);
    for (const char* name : {"run.partial-before", "run.partial-replaced", "run.partial.lock"}) {
      EXPECT_THAT(message_of<Error>([&] { save_checkpoint(scratch.path() / name, {.model = &sharded}); }),
                  HasSubstr("a save to 'run' uses such names"));
    }
    EXPECT_THAT(message_of<Error>([&] { save_checkpoint("", {.model = &sharded}); }), HasSubstr("found no directory"));
    EXPECT_THAT(message_of<Error>([&] { save_pretrained("", sharded); }), HasSubstr("found no directory"));
    save_checkpoint(scratch.path() / "run.partial", {.model = &sharded});
  });
}

TEST(SaveCheckpoint, RefusesAStepThatIsNone) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    for (int64_t step : {int64_t{-1}, checkpoint::kHighestStep + 1}) {
      EXPECT_THAT(
          message_of<Error>([&] { save_checkpoint(scratch.path() / "step", {.model = &sharded, .step = step}); }),
          HasSubstr("expected a number from 0 to 2^53"));
    }
    EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  });
}

}  // namespace
}  // namespace fsdp
