// Hosts that share the folder of a run, and hosts that do not.
#include "run/shared_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "run/first_rank.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace trainer {
namespace {

using fsdp::testing::message_of;
using testing::HasSubstr;

TEST(SharedFolder, IsToldFromOneThatEachHostHasOfItsOwn) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "fsdp-shared-folder-test";
  const std::string shared = folder / "shared", own = folder / "own";
  fsdp::testing::run_on_hosts({.hosts = 2, .ranks = 1}, [&](fsdp::World& world) {
    if (world.rank() == 0) fs::remove_all(folder);
    world.barrier();
    EXPECT_FALSE(check_folder_is_shared(world, shared));  // it is not there yet
    if (world.rank() == 0) fs::create_directories(shared);
    if (world.rank() == 0) fs::create_directories(own);
    world.barrier();
    EXPECT_TRUE(check_folder_is_shared(world, shared));
    const std::string message =
        message_of([&] { check_folder_is_shared(world, world.rank() == 0 ? own : own + "-of-the-other-host"); });
    EXPECT_THAT(message, HasSubstr(world.rank() == 0 ? "own' is not the same for all hosts: rank 0 left a file there, "
                                                       "and rank 1 does not find it"
                                                     : "rank 0 says what is wrong"));
    world.barrier();
    EXPECT_TRUE(fs::is_empty(shared) && fs::is_empty(own));
    world.barrier();
    if (world.rank() == 0) fs::remove_all(folder);
  });
}

}  // namespace
}  // namespace trainer
