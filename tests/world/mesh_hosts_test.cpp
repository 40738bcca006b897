// A mesh of four ranks on two hosts that are numbered in turn over the hosts: 0 and 2 on the first, 1 and 3 on the
// second.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "support/models.h"
#include "support/required.h"
#include "support/run_ranks.h"
#include "world/two_hosts.h"

namespace fsdp {
namespace {

using ::testing::ContainsRegex;
using testing::TwoHosts;

using Variables = std::vector<std::string>;

// A launcher that numbers its ranks in turn. `variables` are those of a rank, and of its number on its host.
struct LauncherInTurn {
  const char* name;
  Variables (*variables)(const std::string& rank, const std::string& host, const std::string& local);

  friend void PrintTo(const LauncherInTurn& launcher, std::ostream* out) { *out << launcher.name; }
};

Variables by_hand(const std::string& rank, const std::string&, const std::string&) { return {"RANK=" + rank}; }

// In place of torchrun's, which `TwoHosts` sets.
Variables without_torchrun(Variables variables) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"})
    variables.emplace_back(name);
  return variables;
}

// srun --distribution=cyclic
Variables of_slurm(const std::string& rank, const std::string& host, const std::string& local) {
  return without_torchrun({"SLURM_PROCID=" + rank, "SLURM_LOCALID=" + local, "SLURM_NTASKS=4", "SLURM_NNODES=2",
                           "SLURM_NODEID=" + host, "SLURM_JOB_ID=77", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4",
                           "SLURM_STEP_NUM_NODES=2", "SLURM_STEP_TASKS_PER_NODE=2(x2)",
                           "SLURM_STEP_NODELIST=10.0.0.1,10.0.0.2", "MASTER_ADDR", "MASTER_PORT"});
}

// mpirun --map-by node
Variables of_open_mpi(const std::string& rank, const std::string&, const std::string& local) {
  return without_torchrun({"OMPI_COMM_WORLD_RANK=" + rank, "OMPI_COMM_WORLD_SIZE=4",
                           "OMPI_COMM_WORLD_LOCAL_RANK=" + local, "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                           "PMIX_NAMESPACE=prterun-host-77@1"});
}

constexpr LauncherInTurn kTorchrun{"torchrun", by_hand};

void run_numbered_in_turn(const std::function<void(World&)>& body, const LauncherInTurn& launcher = kTorchrun) {
  const TwoHosts hosts;
  if (!hosts.problem().empty()) FSDP_SKIP_TEST(hosts.problem());
  std::vector<Variables> variables;
  for (int process = 0; process < 4; ++process) {  // two after the other are on one host
    const int host = process / 2, local = process % 2;
    variables.push_back(hosts.variables(process));
    for (std::string& one :
         launcher.variables(std::to_string(local * 2 + host), std::to_string(host), std::to_string(local)))
      variables.back().push_back(std::move(one));
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

class MeshUnderLaunchers : public ::testing::TestWithParam<LauncherInTurn> {};

TEST_P(MeshUnderLaunchers, HasNeighboursOnOneHost) {
  const auto body = [](World& world) {
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
  };
  run_numbered_in_turn(body, GetParam());
}

INSTANTIATE_TEST_SUITE_P(InTurn, MeshUnderLaunchers,
                         ::testing::Values(kTorchrun, LauncherInTurn{"slurm", of_slurm},
                                           LauncherInTurn{"open_mpi", of_open_mpi}),
                         ::testing::PrintToStringParamName());

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
