// The latest checkpoint of a folder is the newest that is whole.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <functional>
#include <string>

#include "checkpoint/damage.h"
#include "checkpoint/manifest.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::flip;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using fsdp::testing::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_models::make_gpt;

TEST(LoadLatestCheckpoint, PassesOverWhatIsDamagedAndSaysWhy) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    const Checkpoint state{.model = &sharded};
    EXPECT_FALSE(load_latest_checkpoint(scratch.path(), state));
    EXPECT_FALSE(load_latest_checkpoint(scratch.path() / "nowhere", state));
    for (int64_t step : {3, 12, 7, 9}) {
      save_checkpoint(scratch.path() / fmt::format("step-{}", step), {.model = &sharded, .step = step});
    }
    EXPECT_EQ(load_latest_checkpoint(scratch.path(), state)->step, 12);
    world.barrier();
    const std::string shard = checkpoint::shard_file_name(1, 2);
    const auto damage = [&](const std::function<void()>& change) {
      if (world.rank() == 0) change();
      world.barrier();
    };
    damage([&] {
      flip(scratch.path() / "step-12", {checkpoint::kManifestName, 60, 0});
      flip(scratch.path() / "step-9", {shard, fs::file_size(scratch.path() / "step-9" / shard) - 1, 0});
    });
    const auto loaded = load_latest_checkpoint(scratch.path(), state);
    EXPECT_EQ(loaded->step, 7);
    EXPECT_EQ(loaded->directory, scratch.path() / "step-7");
    EXPECT_THAT(loaded->passed_over, ElementsAre(HasSubstr("step-12"), HasSubstr("step-9")));
    damage([&] {
      for (const char* name : {"step-7", "step-3"}) fs::remove(scratch.path() / name / shard);
    });
    EXPECT_THAT(message_of<Error>([&] { load_latest_checkpoint(scratch.path(), state); }),
                AllOf(HasSubstr("none of the 4 checkpoints"), HasSubstr("step-12"), HasSubstr("step-9"),
                      HasSubstr("step-7"), HasSubstr("step-3")));
  });
}

TEST(LatestCheckpoint, PassesOverLoopsOfLinksAndWhatIsDamaged) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    for (int64_t step : {3, 12, 7}) {
      save_checkpoint(scratch.path() / fmt::format("step-{}", step), {.model = &sharded, .step = step});
    }
    fs::create_symlink("loop", scratch.path() / "loop");
    fs::create_symlink("nowhere", scratch.path() / "dangling");
    write_file(scratch.path() / "file", "text");
    EXPECT_EQ(latest_checkpoint(scratch.path()), scratch.path() / "step-12");
    flip(scratch.path() / "step-12", {checkpoint::kManifestName, 60, 0});
    EXPECT_EQ(latest_checkpoint(scratch.path()), scratch.path() / "step-7");
    const std::string shard = checkpoint::shard_file_name(0, 1);
    fs::resize_file(scratch.path() / "step-7" / shard, fs::file_size(scratch.path() / "step-7" / shard) - 1);
    EXPECT_EQ(latest_checkpoint(scratch.path()), scratch.path() / "step-3");
    flip(scratch.path() / "step-3", {shard, 40, 0});  // in its header
    EXPECT_EQ(latest_checkpoint(scratch.path()), std::nullopt);
    save_checkpoint(scratch.path() / "step-4", {.model = &sharded, .step = 4});
    EXPECT_EQ(latest_checkpoint(scratch.path()), scratch.path() / "step-4");
    fs::remove(scratch.path() / "step-4" / shard);
    EXPECT_EQ(latest_checkpoint(scratch.path()), std::nullopt);
    EXPECT_EQ(latest_checkpoint(scratch.path() / "loop"), std::nullopt);
    EXPECT_EQ(latest_checkpoint(scratch.path() / "file"), std::nullopt);
  });
}

}  // namespace
}  // namespace fsdp
