#include "world/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fsdp/error.h"

namespace fsdp::world {
namespace {

using ::testing::HasSubstr;

Environment with(Environment environment, const Environment& changes) {
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
}

const Environment kTorchrun = {{"RANK", "3"},
                               {"WORLD_SIZE", "4"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "node1"},
                               {"MASTER_PORT", "29400"},
                               {"TORCHELASTIC_RUN_ID", "none"},
                               {"TORCHELASTIC_RESTART_COUNT", "2"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                               {"TORCHELASTIC_ERROR_FILE", "/tmp/error.json"}};

const Environment kSlurm = {{"SLURM_PROCID", "3"},
                            {"SLURM_LOCALID", "1"},
                            {"SLURM_NTASKS", "5"},
                            {"SLURM_NODEID", "1"},
                            {"SLURM_NNODES", "3"},
                            {"SLURM_JOB_ID", "77"},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                            {"SLURM_JOB_NODELIST", "gpu[003-005]"}};

void expect_identity(const LauncherJob& job, int rank, int size, int local_rank, int local_size) {
  EXPECT_EQ(job.identity.rank, rank);
  EXPECT_EQ(job.identity.size, size);
  EXPECT_EQ(job.identity.local_rank, local_rank);
  EXPECT_EQ(job.identity.local_size, local_size);
  EXPECT_EQ(job.one_host, size == local_size);
}

TEST(FindLauncher, FindsNone) {
  EXPECT_FALSE(find_launcher({}));
  EXPECT_FALSE(find_launcher({{"PATH", "/bin"}, {"MASTER_ADDR", "a"}, {"RANK", ""}}));
}

TEST(FindLauncher, Torchrun) {
  auto job = find_launcher(kTorchrun);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->launcher, "torchrun");
  expect_identity(*job, 3, 4, 1, 2);
  EXPECT_EQ(job->rendezvous, RendezvousPlace::Agent);
  EXPECT_EQ(job->address, "node1");
  EXPECT_EQ(job->port, 29400);
  EXPECT_EQ(job->attempt, 2);
  EXPECT_EQ(job->error_file, "/tmp/error.json");
  EXPECT_EQ(find_launcher(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}))->rendezvous,
            RendezvousPlace::FirstRank);
}

TEST(FindLauncher, PlainVariables) {
  Environment plain{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "head"}, {"MASTER_PORT", "2222"}};
  auto job = find_launcher(plain);
  expect_identity(*job, 1, 2, 0, 1);
  EXPECT_EQ(job->rendezvous, RendezvousPlace::FirstRank);
  expect_identity(*find_launcher(with(plain, {{"MASTER_ADDR", "127.0.0.1"}})), 1, 2, 1, 2);
  EXPECT_EQ(find_launcher({{"RANK", "0"}, {"WORLD_SIZE", "1"}})->rendezvous, RendezvousPlace::Alone);
}

TEST(FindLauncher, OpenMpi) {
  Environment mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                  {"OMPI_COMM_WORLD_SIZE", "2"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                  {"PMIX_NAMESPACE", "prterun-7@1"}};
  auto job = find_launcher(mpi);
  expect_identity(*job, 1, 2, 1, 2);
  EXPECT_EQ(job->rendezvous, RendezvousPlace::OneHost);
  EXPECT_EQ(job->id, "prterun-7@1");
  Environment hosts = with(mpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  EXPECT_THROW(find_launcher(hosts), Error);
  auto far = find_launcher(with(hosts, {{"MASTER_ADDR", "head"}, {"MASTER_PORT", "1234"}}));
  EXPECT_EQ(far->rendezvous, RendezvousPlace::FirstRank);
  EXPECT_EQ(far->port, 1234);
}

TEST(FindLauncher, SlurmOnSeveralHosts) {
  auto job = find_launcher(kSlurm);
  ASSERT_TRUE(job);
  expect_identity(*job, 3, 5, 1, 2);
  EXPECT_EQ(job->rendezvous, RendezvousPlace::FirstRank);
  EXPECT_EQ(job->address, "gpu003");
  EXPECT_EQ(job->port, find_launcher(with(kSlurm, {{"SLURM_PROCID", "2"}, {"SLURM_LOCALID", "0"}}))->port);
  EXPECT_EQ(find_launcher(with(kSlurm, {{"MASTER_PORT", "999"}}))->port, 999);
}

TEST(FindLauncher, SlurmOnOneHost) {
  auto job = find_launcher(with(kSlurm, {{"SLURM_NNODES", "1"}, {"SLURM_LOCALID", "3"}, {"SLURM_NODEID", "0"}}));
  expect_identity(*job, 3, 5, 3, 5);
  EXPECT_EQ(job->rendezvous, RendezvousPlace::OneHost);
  EXPECT_EQ(job->id, "slurm-77-0-0");
}

TEST(FindLauncher, ABatchScriptOrAnInteractiveShellIsNoSlurmTask) {
  Environment batch = kSlurm;
  batch.erase("SLURM_STEP_ID");
  EXPECT_FALSE(find_launcher(batch));
  EXPECT_FALSE(find_launcher(with(kSlurm, {{"SLURM_STEP_ID", "4294967290"}})));
  EXPECT_FALSE(find_launcher(with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "1"}})));   // srun --pty bash
  EXPECT_FALSE(find_launcher({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}}));  // salloc
}

TEST(FindLauncher, TheMoreSpecificLauncherWins) {
  EXPECT_EQ(find_launcher(with(kSlurm, kTorchrun))->launcher, "torchrun");
  Environment mpi{{"OMPI_COMM_WORLD_RANK", "0"},
                  {"OMPI_COMM_WORLD_SIZE", "2"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_EQ(find_launcher(with(kSlurm, mpi))->launcher, "Open MPI");
}

TEST(FindLauncher, SaysWhichVariableIsWrong) {
  struct Case {
    Environment environment;
    std::string message;
  };
  Environment no_address = kTorchrun;
  no_address.erase("MASTER_ADDR");
  for (const Case& wrong : std::vector<Case>{
           {{{"RANK", "0"}}, "RANK but no WORLD_SIZE"},
           {{{"WORLD_SIZE", "2"}}, "WORLD_SIZE but no RANK"},
           {with(kTorchrun, {{"RANK", "4"}}), "RANK='4', expected a number from 0 to 3"},
           {with(kTorchrun, {{"RANK", "one"}}), "RANK='one'"},
           {with(kTorchrun, {{"WORLD_SIZE", "0"}}), "WORLD_SIZE='0'"},
           {with(kTorchrun, {{"LOCAL_RANK", "2"}}), "LOCAL_RANK='2', expected a number from 0 to 1"},
           {with(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}}), "LOCAL_WORLD_SIZE='9'"},
           {with(kTorchrun, {{"MASTER_PORT", "70000"}}), "MASTER_PORT='70000'"},
           {with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "x"}}), "TORCHELASTIC_RESTART_COUNT='x'"},
           {no_address, "no MASTER_ADDR"},
           {with(kSlurm, {{"SLURM_JOB_NODELIST", "gpu[1"}}), "gpu[1"},
           {with(kSlurm, {{"SLURM_NODEID", "7"}}), "SLURM_NODEID=7"},
           {with(kSlurm, {{"SLURM_STEP_ID", "x"}}), "SLURM_STEP_ID='x'"},
       }) {
    try {
      find_launcher(wrong.environment);
      ADD_FAILURE() << "nothing was thrown: " << wrong.message;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(wrong.message));
    }
  }
}

}  // namespace
}  // namespace fsdp::world
