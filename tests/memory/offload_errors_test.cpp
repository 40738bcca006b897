// What stands in the way of offloading is an error before anything is trained.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "memory/offload_folder.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/required.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/small_disk.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_rank_processes;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_models::make_gpt;

TEST(OffloadErrors, ThePartWithoutAFolder) {
  run_ranks(1, [](World& world) {
    const auto model = make_gpt();
    EXPECT_THAT(message_of<Error>([&] { shard(*model.module, world, {.offload = Offload::Optimizer}); }),
                AllOf(HasSubstr("options.offload is Optimizer"), HasSubstr("offload_directory is empty")));
  });
}

// The other job's process has such a lock.
TEST(OffloadErrors, AFolderThatAnotherJobUses) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    const auto model = make_gpt();
    const memory::OffloadFolder of_another_job(scratch.path(), 0);
    EXPECT_THAT(
        message_of<Error>([&] { shard(*model.module, world, {.offload_directory = scratch.path()}); }),
        AllOf(HasSubstr(scratch.path().string()), HasSubstr("in use by process"), HasSubstr("Name another folder")));
  });
}

TEST(OffloadErrors, APathThatIsNoFolder) {
  run_ranks(1, [](World& world) {
    const auto model = make_gpt();
    EXPECT_THAT(message_of<Error>([&] { shard(*model.module, world, {.offload_directory = "/proc/version"}); }),
                AllOf(HasSubstr("'/proc/version' cannot be made"), HasSubstr("on a local disk")));
  });
}

// A disk with room for the shards and not for the moments, and then for neither.
TEST(OffloadErrors, AFullDisk) {
  const ScratchDirectory scratch;
  const auto unmountable = scratch.path() / "unmountable";
  run_rank_processes(1, [&](World& world) {
    const auto folder = scratch.path() / "disk";
    std::filesystem::create_directory(folder);
    const auto model = make_gpt();
    int64_t bytes = 0;
    for (const auto& parameter : model.module->parameters()) bytes += static_cast<int64_t>(parameter.nbytes());
    if (!testing::mount_small_disk(folder, static_cast<size_t>(2 * bytes))) {
      std::filesystem::create_directory(unmountable);
      return;
    }
    auto sharded = shard(*model.module, world, {.offload_directory = folder});
    EXPECT_THAT(message_of<Error>([&] { AdamW optimizer(sharded); }),
                AllOf(HasSubstr("has no room for"), HasSubstr("No space left"), HasSubstr("Free some space")));
    EXPECT_EQ(sharded.memory().optimizer_bytes, 0);
    model.loss(0).backward();
    SGD(sharded).step();  // which needs no state
    const auto other = make_gpt(6);
    EXPECT_THAT(message_of<Error>([&] { shard(*other.module, world, {.offload_directory = folder}); }),
                HasSubstr("has no room for"));
  });
  if (std::filesystem::exists(unmountable)) FSDP_SKIP_TEST("a rank may not mount a small disk; run the tests as root");
}

}  // namespace
}  // namespace fsdp
