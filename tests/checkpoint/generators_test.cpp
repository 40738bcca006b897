// Generators of random numbers in checkpoints: each rank goes on with its own draws.
#include <ATen/CPUGeneratorImpl.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <string>

#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_models::make_gpt;

at::Generator seeded(int seed) { return at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed)); }

torch::Tensor draw(const at::Generator& generator) { return torch::randn({7}, generator); }

TEST(Generators, OfEachRankGoOnWithTheirOwnDraws) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    const at::Generator own = seeded(world.rank());
    torch::manual_seed(17);
    draw(own), torch::rand({3});
    const Checkpoint checkpoint{.model = &sharded,
                                .generators = {{"own", own}, {"cpu", at::detail::getDefaultCPUGenerator()}}};
    save_checkpoint(scratch.path() / "saved", checkpoint);
    const PendingCheckpoint pending = save_checkpoint_async(scratch.path() / "beside", checkpoint);
    const torch::Tensor expected = draw(own), expected_cpu = torch::rand({3});
    pending.wait();
    for (const char* name : {"saved", "beside"}) {
      draw(own), torch::manual_seed(3);
      load_checkpoint(scratch.path() / name, checkpoint);
      EXPECT_TRUE(torch::equal(draw(own), expected)) << name;
      EXPECT_TRUE(torch::equal(torch::rand({3}), expected_cpu)) << name;
    }
    const torch::Tensor of_rank0 = world.all_gather(expected)[0];
    EXPECT_EQ(torch::equal(expected, of_rank0), world.rank() == 0);
    load_checkpoint(scratch.path() / "saved", {.model = &sharded});  // which asks for none
    EXPECT_FALSE(torch::equal(draw(own), expected));
  });
}

TEST(Generators, OnAnotherNumberOfRanksDrawOtherNumbersAndTheSameEachTime) {
  const ScratchDirectory scratch;
  const auto with = [&](World& world, const std::function<void(const Checkpoint&, const at::Generator&)>& body) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    const at::Generator own = seeded(5);
    body({.model = &sharded, .generators = {{"own", own}}}, own);
  };
  run_ranks(2, [&](World& world) {
    with(world, [&](const Checkpoint& checkpoint, const at::Generator&) {
      save_checkpoint(scratch.path() / "saved", checkpoint);
    });
  });
  run_ranks(3, [&](World& world) {
    with(world, [&](const Checkpoint& checkpoint, const at::Generator& own) {
      load_checkpoint(scratch.path() / "saved", checkpoint);
      const torch::Tensor found = draw(own);
      load_checkpoint(scratch.path() / "saved", checkpoint);
      EXPECT_TRUE(torch::equal(draw(own), found));
      EXPECT_FALSE(torch::equal(found, draw(seeded(5))));
      const auto all = world.all_gather(found);
      EXPECT_FALSE(torch::equal(all[0], all[1]) || torch::equal(all[1], all[2]) || torch::equal(all[0], all[2]));
    });
  });
}

TEST(Generators, ThatACheckpointDoesNotHaveAreADifference) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    const at::Generator own = seeded(5);
    save_checkpoint(scratch.path() / "saved", {.model = &sharded});
    const Checkpoint checkpoint{.model = &sharded, .generators = {{"own", own}}};
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(scratch.path() / "saved", checkpoint); }),
                HasSubstr("generator.own is missing"));
    LoadDifferences differences;
    load_checkpoint(scratch.path() / "saved", checkpoint, {.strict = false, .differences = &differences});
    EXPECT_THAT(differences.missing, ElementsAre("generator.own"));
    EXPECT_TRUE(torch::equal(draw(own), draw(seeded(5))));
  });
}

// A state that LibTorch takes, and that would have it read behind its numbers; its hashes are right.
TEST(Generators, WhoseStateIsNoneAreAnErrorBeforeAnythingChanges) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    at::Generator own = seeded(5);
    draw(own);
    torch::Tensor state = own.get_state();
    constexpr size_t kNext = 16;  // behind the seed, what is left and whether it is seeded
    *reinterpret_cast<uint64_t*>(static_cast<char*>(state.mutable_data_ptr()) + kNext) = 620;
    own.set_state(state);
    const Checkpoint checkpoint{.model = &sharded, .generators = {{"own", own}}};
    save_checkpoint(scratch.path() / "saved", checkpoint);
    own.set_current_seed(5);
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& piece : sharded.shards()) piece.fill_(7);
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(scratch.path() / "saved", checkpoint); }),
                HasSubstr("the state of generator.own is damaged"));
    for (const torch::Tensor& piece : sharded.shards()) EXPECT_TRUE(torch::all(piece == 7).item<bool>());
    EXPECT_TRUE(torch::equal(draw(own), draw(seeded(5))));
  });
}

TEST(Generators, HaveTheSameNamesOnEveryRank) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    Checkpoint checkpoint{.model = &sharded};
    if (world.rank() == 1) checkpoint.generators = {{"own", seeded(5)}};
    EXPECT_THAT(message_of<Error>([&] { save_checkpoint(scratch.path() / "saved", checkpoint); }),
                HasSubstr("expected the same names and devices on every rank"));
    checkpoint.generators = {{"own", at::Generator()}};
    EXPECT_THAT(message_of<Error>([&] { save_checkpoint(scratch.path() / "saved", checkpoint); }),
                HasSubstr("'own' is undefined"));
    EXPECT_FALSE(fs::exists(scratch.path() / "saved"));
  });
}

}  // namespace
}  // namespace fsdp
