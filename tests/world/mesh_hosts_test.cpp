// A mesh of four ranks on two hosts that are numbered in turn over the hosts: 0 and 2 on the first, 1 and 3 on the
// second. SLURM does so with --distribution=cyclic, and mpirun with --map-by node.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "support/models.h"
#include "support/required.h"
#include "support/run_ranks.h"
#include "world/two_hosts.h"

namespace fsdp {
namespace {

using ::testing::ContainsRegex;
using testing::TwoHosts;

void run_numbered_in_turn(const std::function<void(World&)>& body) {
  const TwoHosts hosts;
  if (!hosts.problem().empty()) FSDP_SKIP_TEST(hosts.problem());
  std::vector<std::vector<std::string>> variables;
  for (int process = 0; process < 4; ++process) {  // two after the other are on one host
    variables.push_back(hosts.variables(process));
    variables.back().push_back("RANK=" + std::to_string(process % 2 * 2 + process / 2));
  }
  const auto results = testing::run_processes(
      [&] {
        TwoHosts::enter();
        return launch(testing::test_options(), body);
      },
      variables);
  for (const testing::RunResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.output;
}

std::vector<int64_t> ranks_of(World part, const World& world) {
  std::vector<int64_t> ranks;
  for (const torch::Tensor& rank : part.all_gather(torch::tensor(world.rank()))) ranks.push_back(rank.item<int64_t>());
  return ranks;
}

TEST(MeshOnTwoHosts, HasNeighboursOnOneHost) {
  run_numbered_in_turn([](World& world) {
    const int64_t host = world.rank() % 2, local = world.rank() / 2;
    EXPECT_EQ(world.local_rank(), local);
    const Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
    EXPECT_EQ(mesh.coordinate("data"), host);
    EXPECT_EQ(mesh.coordinate("tensor"), local);
    EXPECT_EQ(mesh["tensor"].local_size(), 2);
    EXPECT_EQ(mesh["data"].local_size(), 1);
    EXPECT_EQ(mesh.world().local_rank(), local);
    EXPECT_EQ(ranks_of(mesh["tensor"], world), (std::vector<int64_t>{host, host + 2}));
    EXPECT_EQ(ranks_of(mesh["data"], world), (std::vector<int64_t>{2 * local, 2 * local + 1}));
    EXPECT_EQ(ranks_of(mesh.world(), world), (std::vector<int64_t>{0, 2, 1, 3}));
    EXPECT_THAT(mesh.to_string(), ContainsRegex("4 ranks on 2 hosts\n"
                                                ".*\n"
                                                "   0         0  2  [^ ]+\n"
                                                "   1         1  3  [^ ]+\n"));
  });
}

// Bytes that reach both hosts while the parameters of a sharded model become full, in parts of all parameters' bytes.
double carried_parameters(World& world, World part) {
  const auto model = testing_models::make_gpt(/*blocks=*/3, /*width=*/128);
  double bytes = 0;
  for (const auto& parameter : model.module->parameters()) bytes += static_cast<double>(parameter.nbytes());
  auto sharded = shard(*model.module, part, {.full_on_each_host = true});
  world.barrier();
  const long before = TwoHosts::received_bytes();
  sharded.full_parameters().close();
  world.barrier();
  torch::Tensor all = torch::tensor(static_cast<double>(TwoHosts::received_bytes() - before), torch::kFloat64);
  world.all_reduce_(all);
  return all.item<double>() / world.local_size() / bytes;
}

// Half of the model lies on the other host. Ranks of a host share one copy of it only if they are neighbours.
TEST(MeshOnTwoHosts, LetsRanksOfAHostShareMemory) {
  run_numbered_in_turn([](World& world) {
    EXPECT_GT(carried_parameters(world, world), 1.8);
    EXPECT_LT(carried_parameters(world, Mesh(world, {{"data", 4}}).world()), 1.2);
  });
}

}  // namespace
}  // namespace fsdp
