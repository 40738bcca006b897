// Ranks of a mesh that wait in a circle: an error names each rank, its call and its axis, long before the timeout. Slow
// programs are no circle.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/pace.h"
#include "support/required.h"
#include "support/run_ranks.h"
#include "world/two_hosts.h"

namespace fsdp {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RunResult;
using testing::TwoHosts;

using MeshBody = std::function<void(int rank, const Mesh& mesh)>;

std::function<void(World&)> on_a_grid(const MeshBody& body) {
  return [body](World& world) { body(world.rank(), Mesh(world, {{"data", 2}, {"tensor", 2}})); };
}

void sum_over(World along) {
  torch::Tensor ones = torch::ones({4});
  along.all_reduce_(ones);
  EXPECT_EQ(ones[0].item<float>(), 2);
}

// Longer than a circle takes to be certain.
void be_slow() { testing::sleep_paced(std::chrono::seconds(6)); }

// Rank 0 waits for rank 2, which waits for rank 3, which waits for rank 1, which waits for rank 0.
void wait_in_a_circle(int rank, const Mesh& mesh) {
  const bool along_data = rank == 0 || rank == 3;
  for (const char* axis : {along_data ? "data" : "tensor", along_data ? "tensor" : "data"}) sum_over(mesh[axis]);
}

constexpr const char* kCircle =
    "rank 0 \\(data 0, tensor 0\\) calls World::all_reduce_ along data and waits for rank 2, "
    "rank 2 \\(data 1, tensor 0\\) calls World::all_reduce_ along tensor and waits for rank 3, "
    "rank 3 \\(data 1, tensor 1\\) calls World::all_reduce_ along data and waits for rank 1, "
    "rank 1 \\(data 0, tensor 1\\) calls World::all_reduce_ along tensor and waits for rank 0\\. "
    "This is a circle, .*in one order on all ranks\\.\n";

int times(const std::string& part, const std::string& text) {
  int times = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

void expect_circle(const RunResult& result) {
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, ContainsRegex(kCircle));
  EXPECT_THAT(result.output, Not(HasSubstr("did not answer")));
}

// Four ranks, which would wait for an hour.
class OnAGrid : public ::testing::TestWithParam<std::string> {
 protected:
  static RunResult run(const MeshBody& body) {
    LaunchOptions options = testing::patient_options();
    options.backend = GetParam();
    return testing::run_ranks_to_end(4, on_a_grid(body), options);
  }
  static void expect_success(const MeshBody& body) {
    const RunResult result = run(body);
    EXPECT_EQ(result.exit_code, 0) << result.output;
  }
};

class MeshCircles : public OnAGrid {};
class SlowMesh : public OnAGrid {};

TEST_P(MeshCircles, AreNamed) {
  const RunResult result = run(wait_in_a_circle);
  expect_circle(result);
  EXPECT_EQ(times("This is a circle", result.output), 1) << result.output;
}

TEST_P(MeshCircles, AreNamedAfterCallsInOneOrder) {
  expect_circle(run([](int rank, const Mesh& mesh) {
    for (int i = 0; i < 20; ++i) {
      sum_over(mesh["data"]);
      sum_over(mesh["tensor"]);
    }
    wait_in_a_circle(rank, mesh);
  }));
}

// Ranks 0 and 3 wait for a collective beside the program, and only then call the one along tensor.
TEST_P(MeshCircles, OfCollectivesBesideTheProgramAreNamed) {
  const RunResult result = run([](int rank, const Mesh& mesh) {
    World data = mesh["data"];
    torch::Tensor ones = torch::ones({4});
    data.all_reduce_async_(ones).wait();
    if (rank == 1 || rank == 2) sum_over(mesh["tensor"]);
    data.all_reduce_async_(ones).wait();
    if (rank == 0 || rank == 3) sum_over(mesh["tensor"]);
  });
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(
      result.output,
      ContainsRegex("rank 0 [^,]*, tensor 0\\) calls World::all_reduce_async_ beside the program along data and "
                    "waits for rank 2, rank 2 [^,]*, tensor 0\\) calls World::all_reduce_ along tensor and waits "
                    "for rank 3, rank 3 "));
}

// Every rank waits for another one, but rank 1, on which all others depend, computes.
TEST_P(SlowMesh, OfWhichARankComputesIsNoCircle) {
  expect_success([](int rank, const Mesh& mesh) {
    if (rank == 1) be_slow();
    if (rank == 0 || rank == 2) sum_over(mesh["data"]);
    sum_over(mesh["tensor"]);
    if (rank == 1 || rank == 3) sum_over(mesh["data"]);
  });
}

// A rank computes in turn, so that long waits follow each other along both axes.
TEST_P(SlowMesh, WithLongWaitsOneAfterTheOtherIsNoCircle) {
  expect_success([](int rank, const Mesh& mesh) {
    for (int slow = 0; slow < 4; ++slow) {
      if (rank == slow) testing::sleep_paced(std::chrono::seconds(2));
      sum_over(mesh[slow % 2 == 0 ? "data" : "tensor"]);
      sum_over(mesh[slow % 2 == 0 ? "tensor" : "data"]);
    }
  });
}

// Each rank has a thread for each axis. On each, one of them waits and the other one computes.
TEST_P(SlowMesh, OfSeveralThreadsIsNoCircle) {
  expect_success([](int rank, const Mesh& mesh) {
    const bool slow_in_data = rank == 0 || rank == 3;
    std::thread tensor([&] {
      sum_over(mesh["tensor"]);
      if (!slow_in_data) be_slow();
      sum_over(mesh["tensor"]);
    });
    sum_over(mesh["data"]);
    if (slow_in_data) be_slow();
    sum_over(mesh["data"]);
    tensor.join();
  });
}

// A collective beside the program waits along one axis, and the program along the other one.
TEST_P(SlowMesh, OfCollectivesBesideTheProgramIsNoCircle) {
  expect_success([](int rank, const Mesh& mesh) {
    World data = mesh["data"];
    const bool begins = rank == 0 || rank == 3;
    torch::Tensor ones = torch::ones({4});
    data.all_reduce_async_(ones).wait();
    Work beside;
    if (begins) beside = data.all_reduce_async_(ones);
    if (rank == 1) be_slow();
    sum_over(mesh["tensor"]);
    if (!begins) beside = data.all_reduce_async_(ones);
    beside.wait();
  });
}

// Rank 1 waits for a message of rank 0. It comes from a thread, while the program of rank 0 waits along data.
TEST_P(SlowMesh, OfAMessageBetweenTwoRanksIsNoCircle) {
  expect_success([](int rank, const Mesh& mesh) {
    World data = mesh["data"], tensor = mesh["tensor"];
    torch::Tensor number = torch::zeros({1});
    if (rank == 0) {
      std::thread sender([&] {
        be_slow();
        tensor.send(number, 1);
      });
      sum_over(data);
      sender.join();
    } else {
      if (rank == 1) tensor.receive_(number, 0);
      if (rank == 2) sum_over(tensor);
      sum_over(data);
      if (rank == 3) sum_over(tensor);
    }
  });
}

// A model along data: rank 0 waits in it for rank 2, which waits along tensor for rank 3, and so on.
TEST_P(MeshCircles, OfModelsAreNamed) {
  const RunResult result = run([](int rank, const Mesh& mesh) {
    World along = mesh["data"];
    torch::nn::Linear model(8, 8);
    auto sharded = shard(*model, along, {.units = one_unit()});
    const torch::Tensor loss = model->forward(torch::ones({2, 8})).sum();
    if (rank == 0 || rank == 3) loss.backward();
    sum_over(mesh["tensor"]);
    if (rank == 1 || rank == 2) loss.backward();
  });
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output,
              ContainsRegex("rank 0 [^.,]*, tensor 0\\) [^.,]* of a model along data and waits for rank 2, rank 2 "
                            "[^.,]*, tensor 0\\) [^.,]* along tensor and waits for rank 3, rank 3 "));
}

// Ranks compute in turn while others wait in the model, and along tensor.
TEST_P(SlowMesh, OfAModelIsNoCircle) {
  expect_success([](int rank, const Mesh& mesh) {
    World along = mesh["data"];
    torch::nn::Linear model(8, 8);
    auto sharded = shard(*model, along);
    SGD optimizer(sharded, {.lr = 0.1});
    for (int slow = 0; slow < 4; ++slow) {
      if (rank == slow) testing::sleep_paced(std::chrono::seconds(2));
      const torch::Tensor loss = model->forward(torch::ones({2, 8})).sum();
      if (slow % 2 == 0) sum_over(mesh["tensor"]);
      loss.backward();
      if (slow % 2 == 1) sum_over(mesh["tensor"]);
      optimizer.step();
      optimizer.zero_grad();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Shm, MeshCircles, ::testing::Values("shm"));
INSTANTIATE_TEST_SUITE_P(Shm, SlowMesh, ::testing::Values("shm"));

#ifdef FSDP_WITH_GLOO
INSTANTIATE_TEST_SUITE_P(Gloo, MeshCircles, ::testing::Values("gloo"));
INSTANTIATE_TEST_SUITE_P(Gloo, SlowMesh, ::testing::Values("gloo"));

// The last axis shares memory, and the first one goes over Gloo.
TEST(MeshCirclesOnTwoHosts, AreNamed) {
  const TwoHosts hosts;
  if (!hosts.problem().empty()) FSDP_SKIP_TEST(hosts.problem());
  std::vector<std::vector<std::string>> variables;
  for (int rank = 0; rank < 4; ++rank) variables.push_back(hosts.variables(rank));
  const auto results = testing::run_processes(
      [&] {
        TwoHosts::enter();
        return launch(testing::patient_options(), on_a_grid(wait_in_a_circle));
      },
      variables);
  for (const RunResult& result : results) expect_circle(result);
}
#endif

}  // namespace
}  // namespace fsdp
