// A run that barely fits takes no memory for later use.
#include "training/memory_guard.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <torch/torch.h>

#include "planning/host_memory.h"
#include "support/run_ranks.h"
#include "training/step_code.h"

namespace trainer {
namespace {

using fsdp::testing::run_rank_processes;
using fsdp::testing::run_ranks;

// True if the memory of a tensor comes from an allocator that is not glibc's.
bool returns_freed_memory() {
  const auto of_glibc = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
  const auto before = of_glibc();
  const torch::Tensor tensor = torch::empty({4 << 20}, torch::kUInt8);
  return of_glibc() < before + tensor.nbytes();
}

TEST(MemoryGuard, ReturnsFreedMemoryOfARunThatBarelyFits) {
  run_rank_processes(2, [](fsdp::World& world) {
    RunOptions options;
    options.model = {.vocabulary = 256, .context = 32, .width = 32, .layers = 2, .heads = 2};
    options.ranks = world.size();
    const double needed = host_bytes(plan_here(world, options, {}));
    check_memory(world, options, {.host = 10 * needed});
    EXPECT_FALSE(returns_freed_memory());
    check_memory(world, options, {.host = 1.15 * needed});
    EXPECT_TRUE(returns_freed_memory());
  });
}

TEST(MemoryGuard, ChecksRunsOnAMesh) {
  run_ranks(2, [](fsdp::World& world) {
    RunOptions options;
    options.model = {.vocabulary = 256, .context = 32, .width = 32, .layers = 2, .heads = 2};
    options.ranks = world.size();
    options.pipeline_parallel = 2;
    check_memory(world, options, {.host = 1e12});
    EXPECT_THROW(check_memory(world, options, {.host = 1e3}), fsdp::Error);
  });
}

TEST(StepCode, DrawsNoRandomNumbersOfARun) {
  torch::manual_seed(7);
  const torch::Tensor expected = torch::rand({3});
  torch::manual_seed(7);
  RunOptions options;
  options.model = {.vocabulary = 16, .context = 8, .width = 8, .layers = 1, .heads = 1};
  load_code_of_steps(options);
  EXPECT_TRUE(torch::equal(torch::rand({3}), expected));
}

}  // namespace
}  // namespace trainer
