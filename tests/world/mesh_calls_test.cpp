// Ranks of a mesh in calls along different axes, and ranks that are gone: an error within seconds names them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fsdp/mesh.h"
#include "support/pace.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RunResult;

// Four ranks, which would wait for an hour.
class MeshCalls : public ::testing::TestWithParam<std::string> {
 protected:
  using Body = std::function<void(int rank, const Mesh& mesh)>;

  static RunResult run(const Body& body) {
    return run_world([&](World& world) { body(world.rank(), Mesh(world, {{"a", 2}, {"b", 2}})); });
  }
  static RunResult run_world(const std::function<void(World& world)>& body) {
    LaunchOptions options = testing::patient_options();
    options.backend = GetParam();
    return testing::run_ranks_to_end(4, body, options);
  }
};

void sum_along(const Mesh& mesh, const std::string& axis) {
  torch::Tensor ones = torch::ones({4});
  mesh[axis].all_reduce_(ones);
  EXPECT_EQ(ones[0].item<float>(), 2);
}

// Rank 3 waits for rank 1, which has left for a barrier of all.
TEST_P(MeshCalls, AlongDifferentAxesBeforeACommonCallAreNamed) {
  const RunResult result = run([](int rank, const Mesh& mesh) {
    sum_along(mesh, rank == 3 ? "a" : "b");
    mesh.world().barrier();
  });
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(
      result.output,
      ContainsRegex(
          "rank 1 \\(a 0, b 1\\) (calls|enters) [^.]*barrier where rank 3 \\(a 1, b 1\\) calls [^.]*all_reduce_"));
  EXPECT_THAT(result.output, HasSubstr("no rank can continue"));
  EXPECT_THAT(result.output, Not(HasSubstr("did not answer")));
}

TEST_P(MeshCalls, OfARankThatReturnsAreNamed) {
  const RunResult result = run([](int rank, const Mesh& mesh) { sum_along(mesh, rank == 3 ? "a" : "b"); });
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output,
              ContainsRegex("rank 1 (\\(a 0, b 1\\) )?(returned from its function|has returned early|was closed)"));
}

// Rank 0 waits along one axis for rank 2, which waits along the other for rank 3.
TEST_P(MeshCalls, OfARankThatIsKilledAreNamed) {
  const RunResult result = run([](int rank, const Mesh& mesh) {
    if (rank == 3) raise(SIGKILL);
    if (rank != 2) sum_along(mesh, "a");
    sum_along(mesh, "b");
  });
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("rank 3 was killed by signal 9"));
  EXPECT_THAT(result.output, Not(HasSubstr("did not answer")));
}

TEST_P(MeshCalls, OfARankThatThrowsAreNamed) {
  const RunResult result = run([](int rank, const Mesh& mesh) {
    if (rank == 3) throw std::runtime_error("out of paper");
    if (rank != 2) sum_along(mesh, "a");
    sum_along(mesh, "b");
  });
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("[fsdp rank 3/4] out of paper\n"));
  EXPECT_THAT(result.output, Not(HasSubstr("did not answer")));
}

// Rank 2 waits for rank 3 along one axis, and rank 3 for rank 1 along the other, for longer than an error takes.
TEST_P(MeshCalls, ThatWaitForASlowRankAreNoError) {
  const RunResult result = run([](int rank, const Mesh& mesh) {
    if (rank == 1) testing::sleep_paced(std::chrono::seconds(4));
    sum_along(mesh, "a");
    sum_along(mesh, "b");
    mesh.world().barrier();
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST_P(MeshCalls, OfOneRankMayComeInAnotherOrder) {
  const RunResult result = run([](int rank, const Mesh& mesh) {
    for (const char* axis : {rank == 3 ? "a" : "b", rank == 3 ? "b" : "a"}) sum_along(mesh, axis);
    mesh.world().barrier();
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST_P(MeshCalls, OfItsConstructorOnSomeRanksAreNamed) {
  for (const bool splits : {true, false}) {
    const RunResult result = run_world([splits](World& world) {
      if (world.rank() != 3) {
        Mesh(world, {{"a", 2}, {"b", 2}});
      } else if (splits) {
        world.split(0);
      } else {
        world.barrier();
      }
    });
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.output, ContainsRegex("rank [012] calls Mesh .*where rank 3 (enters|splits) "));
  }
}

#ifdef FSDP_WITH_GLOO
INSTANTIATE_TEST_SUITE_P(Backends, MeshCalls, ::testing::Values("shm", "gloo"));
#else
INSTANTIATE_TEST_SUITE_P(Backends, MeshCalls, ::testing::Values("shm"));
#endif

}  // namespace
}  // namespace fsdp
