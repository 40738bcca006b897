// Tensors of a device that go through the host's memory, with the CPU in the device's place: the same bits as the group
// below gives.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "collectives/backends.h"
#include "collectives/group_checks.h"
#include "support/drawn.h"
#include "support/run_ranks.h"
#include "world/state.h"

namespace fsdp {
namespace {

using testing::Job;
using testing::run_ranks;

std::unique_ptr<collectives::Group> make_staged(World& world) {
  return collectives::make_staged_group(world.state()->new_group(), torch::kCPU);
}

class Staged : public ::testing::TestWithParam<Job> {};

TEST_P(Staged, Gathers) {
  run_ranks(GetParam(), [](World& world) { collectives::check_gather(*make_staged(world)); });
}
TEST_P(Staged, Reduces) {
  run_ranks(GetParam(), [](World& world) { collectives::check_reduce(*make_staged(world)); });
}
TEST_P(Staged, MovesWholeTensors) {
  run_ranks(GetParam(), [](World& world) { collectives::check_whole_tensors(*make_staged(world)); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Staged,
                         testing::drawn<Job>({{3, "shm"}, {2, "gloo"}}, {{2, "shm"}, {4, "shm"}, {4, "gloo"}}),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace fsdp
