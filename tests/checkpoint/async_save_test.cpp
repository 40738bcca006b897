// A save beside training has the state of its call, to the byte of save_checkpoint's files, whatever training does
// meanwhile and however slow the save is.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "checkpoint/held_save.h"
#include "checkpoint/saved_training.h"
#include "support/drawn.h"
#include "support/file_size_limit.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::drawn;
using fsdp::testing::files_of;
using fsdp::testing::HeldSave;
using fsdp::testing::Job;
using fsdp::testing::MakeOptimizer;
using fsdp::testing::run_rank_processes;
using fsdp::testing::run_ranks;
using fsdp::testing::SavedTraining;
using fsdp::testing::SaveStep;
using fsdp::testing::ScratchDirectory;
using fsdp::testing::TrainingKind;
using testing_models::every_strategy;
using testing_models::make_gpt;

// How a test trains and saves.
struct Case {
  TrainingKind training = {};
  // The save's thread stops there: before it copies, for a moment in which training comes to change the state; before
  // it writes, until training has made two steps.
  SaveStep held_at = SaveStep::Write;
  bool waits_for_files = false;  // training does, so that the thread cannot wait for it
};

// Saves while training waits, beside training and after it. A collective.
void expect_state_of_its_call(World& world, const fs::path& folder, const Case& how) {
  SavedTraining run(world, how.training);
  run.step_to(3);
  Checkpoint checkpoint = run.checkpoint();
  checkpoint.notes = {{"place", "of the third step"}};
  save_checkpoint(folder / "waited for", checkpoint);
  {
    HeldSave held(run.sharded, how.held_at);
    const PendingCheckpoint pending = save_checkpoint_async(folder / "beside", checkpoint);
    EXPECT_FALSE(pending.done());
    if (how.held_at == SaveStep::Copy || how.waits_for_files) held.let_go_later();
    run.step_to(5);
    held.let_go();
    pending.wait();
    EXPECT_TRUE(pending.done());
    EXPECT_GT(pending.seconds(), 0);
    EXPECT_GT(pending.seconds_paused(), 0);
  }
  save_checkpoint(folder / "later", {.model = &run.sharded, .optimizer = run.optimizer.get(), .step = 3});
  if (world.rank() != 0) return;
  const auto expected = files_of(folder / "waited for");
  EXPECT_GE(expected.size(), 2u);
  EXPECT_TRUE(files_of(folder / "beside") == expected);
  EXPECT_FALSE(files_of(folder / "later") == expected);
}

class AsyncSaveOf : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(Jobs, AsyncSaveOf,
                         drawn<Job>({Job{3, "shm"}, Job{2, "gloo"}}, {Job{1, "auto"}, Job{2, "shm"}, Job{3, "gloo"}}),
                         ::testing::PrintToStringParamName());

TEST_P(AsyncSaveOf, EveryStrategyHasTheStateOfItsCall) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    for (const auto& [name, options] : every_strategy(world.size())) {
      for (const SaveStep held_at : {SaveStep::Copy, SaveStep::Write}) {
        SCOPED_TRACE(name);
        expect_state_of_its_call(world, scratch.path(), {.training = {.options = options}, .held_at = held_at});
      }
    }
  });
}

TEST_P(AsyncSaveOf, ModelsWithBuffersAndStepsInTheBackwardHaveTheStateOfTheirCall) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    for (const SaveStep held_at : {SaveStep::Copy, SaveStep::Write}) {
      for (const auto& kind : testing_models::model_kinds()) {
        if (kind.name == "convolutions")
          expect_state_of_its_call(world, scratch.path(), {.training = {.make = kind.make}, .held_at = held_at});
      }
      expect_state_of_its_call(
          world, scratch.path(),
          {.training = {.make = [] { return make_gpt(6); }, .steps_in_backward = true}, .held_at = held_at});
    }
  });
}

TEST(AsyncSave, OfFourRanksInTwoGroupsHasTheStateOfItsCall) {
  const ScratchDirectory scratch;
  run_ranks(4, [&](World& world) {
    expect_state_of_its_call(world, scratch.path(),
                             {.training = {.options = {.strategy = Strategy::HybridShard, .shard_group_size = 2}},
                              .held_at = SaveStep::Copy});
  });
}

TEST(AsyncSave, OnSeveralHostsHasTheStateOfItsCall) {
  const ScratchDirectory scratch;
  testing::run_on_hosts({.hosts = 2, .ranks = 2}, [&](World& world) {
    expect_state_of_its_call(world, scratch.path(), {.held_at = SaveStep::Copy});
  });
}

TEST(AsyncSave, OfEveryOptimizerHasTheStateOfItsCall) {
  std::vector<MakeOptimizer> optimizers{
      [](ShardedModel& sharded) { return std::make_unique<SGD>(sharded, SGDOptions{.lr = 0.1, .momentum = 0.9}); },
      [](ShardedModel& sharded) { return std::make_unique<Adam>(sharded, AdamOptions{.lr = 1e-2, .amsgrad = true}); },
      [](ShardedModel& sharded) { return std::make_unique<Muon>(sharded, MuonOptions{.lr = 1e-2}); }};
  for (const StateDtype dtype : {StateDtype::BFloat16, StateDtype::Block8}) {
    optimizers.push_back([dtype](ShardedModel& sharded) {
      return std::make_unique<AdamW>(sharded, AdamWOptions{.lr = 1e-2, .state_dtype = dtype});
    });
  }
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    for (const MakeOptimizer& make_optimizer : optimizers) {
      expect_state_of_its_call(world, scratch.path(),
                               {.training = {.make_optimizer = make_optimizer}, .held_at = SaveStep::Copy});
    }
    expect_state_of_its_call(
        world, scratch.path(),
        {.training = {.options = {.mixed_precision = {.param_dtype = torch::kBFloat16}}}, .held_at = SaveStep::Copy});
  });
}

// An optimizer of a user's own, by operators over the pieces: it changes its state first.
class Momentum final : public Optimizer {
 public:
  explicit Momentum(ShardedModel& model) : model_(model) {
    for (const torch::Tensor& piece : model.shards()) momenta_.push_back(torch::zeros_like(piece.clone()));
  }
  void step() override {
    const torch::NoGradGuard no_grad;
    const auto pieces = model_.shards();
    for (size_t i = 0; i < pieces.size(); ++i) {
      momenta_[i].mul_(0.9).add_(1);
      if (pieces[i].numel() > 0) momenta_[i].add_(pieces[i].grad());
    }
    for (size_t i = 0; i < pieces.size(); ++i) torch::Tensor(pieces[i]).sub_(0.01 * momenta_[i]);
  }
  void zero_grad() override { model_.zero_grad(); }
  State state() override { return {.elements = {{"momentum", momenta_}}, .scalars = {}}; }
  engine::Model& model() const override { return model_.model(); }

 private:
  ShardedModel& model_;
  std::vector<torch::Tensor> momenta_;
};

TEST_P(AsyncSaveOf, AnOptimizerOfTheUsersHasTheStateOfItsCall) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    expect_state_of_its_call(
        world, scratch.path(),
        {.training = {.make_optimizer = [](ShardedModel& sharded) { return std::make_unique<Momentum>(sharded); }},
         .held_at = SaveStep::Copy});
  });
}

// The state is not copied there: a step waits for the files.
TEST(AsyncSave, OfStateInFilesHasTheStateOfItsCallAndTakesNoMemory) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    for (const Offload offload : {Offload::Optimizer, Offload::All}) {
      Case how{.training = {.options = {.offload_directory = scratch.path() / "state"}}, .waits_for_files = true};
      how.training.options.offload = offload;
      expect_state_of_its_call(world, scratch.path(), how);
      SavedTraining run(world, how.training);
      save_checkpoint_async(scratch.path() / "beside", run.checkpoint()).wait();
      EXPECT_EQ(run.sharded.memory().save_copy_bytes, 0);
    }
    world.barrier();
    EXPECT_TRUE(fs::is_empty(scratch.path() / "state"));  // with the models
  });
}

TEST(AsyncSave, KeepsTheMemoryOfItsCopyForTheNext) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    SavedTraining run(world);
    ShardedModel& sharded = run.sharded;
    EXPECT_EQ(sharded.memory().save_copy_bytes, 0);
    const MemoryReport before = sharded.memory();
    const Checkpoint checkpoint = run.checkpoint();
    save_checkpoint_async(scratch.path() / "first", checkpoint).wait();
    const int64_t bytes = sharded.memory().save_copy_bytes;
    int64_t state = before.optimizer_bytes;
    for (const auto& parameter : sharded.parameters()) state += static_cast<int64_t>(parameter.piece.nbytes());
    EXPECT_GE(bytes, state);
    EXPECT_LE(bytes, state + 3 * 64 * static_cast<int64_t>(sharded.parameters().size()) + 4096);
    save_checkpoint_async(scratch.path() / "second", checkpoint).wait();
    EXPECT_EQ(sharded.memory().save_copy_bytes, bytes);
    EXPECT_EQ(sharded.memory().total_bytes(), before.total_bytes());
  });
}

// While it copies, this process may have no memory that is as large as a page: such memory counts as a file.
TEST(AsyncSave, WithoutMemoryForTheCopyHasTheStateOfItsCall) {
  const ScratchDirectory scratch;
  run_rank_processes(2, [&](World& world) {
    SavedTraining run(world);
    run.step_to(2);
    const Checkpoint checkpoint = run.checkpoint();
    save_checkpoint(scratch.path() / "waited for", checkpoint);
    std::optional<testing::FileSizeLimit> limit;
    checkpoint::background_saves_of(run.sharded.model()).watch_steps([&](SaveStep step) {
      if (step == SaveStep::Copy) limit.emplace(4096);
      if (step != SaveStep::Write) return;
      limit.reset();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // training comes to its step meanwhile
    });
    const PendingCheckpoint pending = save_checkpoint_async(scratch.path() / "beside", checkpoint);
    run.step_to(4);
    pending.wait();
    EXPECT_EQ(run.sharded.memory().save_copy_bytes, 0);
    if (world.rank() == 0) EXPECT_TRUE(files_of(scratch.path() / "beside") == files_of(scratch.path() / "waited for"));
  });
}

TEST(AsyncSave, CanBeLoadedAndGoesOnWithTheSameBits) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    SavedTraining run(world), resumed(world);
    run.step_to(2);
    const PendingCheckpoint pending = save_checkpoint_async(scratch.path() / "saved", run.checkpoint());
    run.step_to(4);
    while (!pending.done()) std::this_thread::yield();
    resumed.steps = load_checkpoint(scratch.path() / "saved", resumed.checkpoint());
    EXPECT_EQ(resumed.steps, 2);
    resumed.step_to(4);
    const auto expected = run.sharded.shards(), found = resumed.sharded.shards();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(torch::equal(expected[i], found[i])) << i;
  });
}

}  // namespace
}  // namespace fsdp
