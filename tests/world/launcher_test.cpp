// This program as a rank of a launcher's job, without the launcher: its variables are set by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

using testing::free_port;
using ::testing::HasSubstr;
using testing::run_process;
using testing::RunResult;

using Variables = std::vector<std::string>;

int sum_ranks() {
  return launch({.ranks = 7, .timeout = std::chrono::seconds(20)}, [](World& world) {
    torch::Tensor rank = torch::tensor({world.rank() + 1.0f});
    world.all_reduce_(rank);
    World alone = world.split(world.rank());
    std::cout << "sum " << rank.item<float>() << " of " << world.size() << std::endl;
  });
}

// Two ranks at the same time.
void expect_sum(const std::function<Variables(int rank)>& variables) {
  auto [first, second] = testing::run_two_processes(sum_ranks, variables(0), variables(1));
  for (const RunResult& result : {first, second}) {
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr("sum 3 of 2"));
  }
}

Variables torchrun_variables(int rank, const std::string& port) {
  std::string number = std::to_string(rank);
  return {"RANK=" + number,        "WORLD_SIZE=2",        "LOCAL_RANK=" + number, "LOCAL_WORLD_SIZE=2",
          "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port, "TORCHELASTIC_RUN_ID=x"};
}

TEST(Launcher, TorchrunWithoutAStoreOfItsOwn) {
  std::string port = free_port();
  expect_sum([&](int rank) { return torchrun_variables(rank, port); });
}

TEST(Launcher, PlainVariables) {
  std::string port = free_port();
  expect_sum([&](int rank) {
    return Variables{"RANK=" + std::to_string(rank), "WORLD_SIZE=2", "MASTER_ADDR=localhost", "MASTER_PORT=" + port};
  });
}

// Jobs of this machine meet under their names: another run of this test has another.
Variables slurm_variables(int rank, const std::string& folder = "/nowhere") {
  std::string number = std::to_string(rank);
  return {"SLURM_PROCID=" + number,
          "SLURM_LOCALID=" + number,
          "SLURM_NTASKS=2",
          "SLURM_NNODES=1",
          "SLURM_STEP_ID=0",
          "SLURM_STEP_NUM_TASKS=2",
          "SLURM_JOB_ID=" + std::to_string(getpid()),
          "TMPDIR=" + folder};
}

TEST(Launcher, SlurmOnOneHostMeetsWithoutAFile) {
  testing::ScratchDirectory scratch;
  expect_sum([&](int rank) { return slurm_variables(rank, scratch.path()); });
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(Launcher, OpenMpiOnOneHost) {
  expect_sum([&](int rank) {
    std::string number = std::to_string(rank);
    return Variables{"OMPI_COMM_WORLD_RANK=" + number, "OMPI_COMM_WORLD_LOCAL_RANK=" + number, "OMPI_COMM_WORLD_SIZE=2",
                     "OMPI_COMM_WORLD_LOCAL_SIZE=2"};
  });
}

TEST(Launcher, AKilledJobIsNotMistakenForTheNextOneOfItsName) {
  auto job = [](bool dies) {
    return launch({.timeout = std::chrono::seconds(20)}, [&](World& world) {
      world.barrier();
      if (dies) raise(SIGKILL);
      std::cout << "done" << std::endl;
    });
  };
  for (const bool dies : {true, false}) {
    const auto [first, second] =
        testing::run_two_processes([&] { return job(dies); }, slurm_variables(0), slurm_variables(1));
    if (std::getenv("SLURM_PROCID")) continue;  // the process of another call
    for (const RunResult& result : {first, second}) {
      EXPECT_EQ(result.exit_code, dies ? 128 + SIGKILL : 0) << result.output;
    }
  }
}

TEST(Launcher, SaysWhichRankOfAHostDidNotCome) {
  const auto alone = [] { return launch({.timeout = std::chrono::seconds(1)}, [](World&) {}); };
  const RunResult first = run_process(alone, slurm_variables(0));
  EXPECT_EQ(first.exit_code, 1);
  EXPECT_THAT(first.output, HasSubstr("did not come to rank 0 within 1000 ms. Check that every rank has started"));
  const RunResult second = run_process(alone, slurm_variables(1));
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.output, HasSubstr("could not be reached within 1000 ms"));
}

TEST(Launcher, ARankThatComesTwiceIsFound) {
  const auto job = [] { return launch({.timeout = std::chrono::seconds(20)}, [](World&) {}); };
  std::vector<Variables> variables{slurm_variables(0), slurm_variables(1), slurm_variables(1)};
  for (Variables& one : variables) one.insert(one.end(), {"SLURM_NTASKS=3", "SLURM_STEP_NUM_TASKS=3"});
  const auto results = testing::run_processes(job, variables);
  EXPECT_THAT(results[0].output, HasSubstr("a process came as rank 1 of job"));
  for (const RunResult& result : results) EXPECT_EQ(result.exit_code, 1) << result.output;
}

// Ranks that are done with a launch begin the next one while others are still in the first.
int launch_often() {
  int sum = 0;
  for (int i = 0; i < 5; ++i) sum += sum_ranks();
  return sum;
}

void expect_launches(const std::function<Variables(int rank)>& variables) {
  auto [first, second] = testing::run_two_processes(launch_often, variables(0), variables(1));
  for (const RunResult& result : {first, second}) EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST(Launcher, LaunchesOftenByTheFirstRank) {
  const std::string port = free_port();
  expect_launches([&](int rank) { return torchrun_variables(rank, port); });
}

TEST(Launcher, LaunchesOftenOnOneHost) {
  expect_launches([](int rank) { return slurm_variables(rank); });
}

TEST(Launcher, LaunchesOftenByTheAgent) {
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.waitWorkers = false;
  options.port = 0;
  c10d::TCPStore agent("127.0.0.1", options);
  expect_launches([&](int rank) {
    Variables variables = torchrun_variables(rank, std::to_string(agent.getPort()));
    variables.push_back("TORCHELASTIC_USE_AGENT_STORE=True");
    return variables;
  });
}

TEST(Launcher, LaunchesAgainAfterAFailure) {
  const auto fail_once = [] {
    const auto options = LaunchOptions{.timeout = std::chrono::seconds(20)};
    const int failed = launch(options, [](World& world) {
      if (world.rank() == 1) throw Error("once");
      world.barrier();
    });
    return failed == 1 ? sum_ranks() : 9;
  };
  const auto [first, second] = testing::run_two_processes(fail_once, slurm_variables(0), slurm_variables(1));
  for (const RunResult& result : {first, second}) EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST(Launcher, TellsTorchrunTheCauseOfAFailure) {
  testing::ScratchDirectory scratch;
  std::string file = (scratch.path() / "error.json").string();
  RunResult result =
      run_process([] { return launch({}, [](World&) { throw Error("no \"data\""); }); },
                  {"RANK=0", "WORLD_SIZE=1", "TORCHELASTIC_RUN_ID=x", "TORCHELASTIC_ERROR_FILE=" + file});
  EXPECT_EQ(result.exit_code, 1);
  std::string text;
  std::ifstream stream(file);
  std::getline(stream, text);
  EXPECT_THAT(text, HasSubstr(R"("message":"[fsdp rank 0/1] no \"data\""})"));
  EXPECT_THAT(text, HasSubstr(R"("extraInfo":{"py_callstack":"[fsdp rank 0/1] no \"data\"","timestamp":")"));
}

TEST(Launcher, VariablesThatContradictEachOtherAreAUsageError) {
  RunResult result = run_process(sum_ranks, {"RANK=2", "WORLD_SIZE=2"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("RANK='2', expected a number from 0 to 1"));
}

TEST(Launcher, SaysThatNobodyHostsTheStore) {
  RunResult result = run_process([] { return launch({.timeout = std::chrono::seconds(1)}, [](World&) {}); },
                                 torchrun_variables(1, free_port()));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("could not be reached within 1000 ms"));
}

}  // namespace
}  // namespace fsdp
