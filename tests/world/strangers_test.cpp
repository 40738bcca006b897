// A job's store, and those who are not of the job.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "support/run_ranks.h"

namespace fsdp {
namespace {

using testing::free_port;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RunResult;
using Variables = std::vector<std::string>;

constexpr const char* kAnotherSecret = "has another secret than this rank";

// Rank `rank` of 2, on one host or each on its own.
Variables variables_of(int rank, const std::string& port, const Variables& more = {}, bool one_host = true) {
  const std::string number = std::to_string(rank);
  Variables variables{"RANK=" + number,
                      "WORLD_SIZE=2",
                      "LOCAL_RANK=" + std::string(one_host ? number : "0"),
                      "LOCAL_WORLD_SIZE=" + std::string(one_host ? "2" : "1"),
                      "MASTER_ADDR=127.0.0.1",
                      "MASTER_PORT=" + port};
  variables.insert(variables.end(), more.begin(), more.end());
  return variables;
}

int sum_two_ranks() {
  return launch(testing::patient_options(), [](World& world) {
    torch::Tensor sum = torch::tensor({world.rank() + 1.0f});
    world.all_reduce_(sum);
    EXPECT_EQ(sum.item<float>(), 3);
  });
}

void meet_with_two_secrets(bool one_host) {
  const std::string port = free_port();
  const auto [first, second] =
      testing::run_two_processes(sum_two_ranks, variables_of(0, port, {"FSDP_JOB_SECRET=ours"}, one_host),
                                 variables_of(1, port, {"FSDP_JOB_SECRET=theirs"}, one_host));
  for (const RunResult& result : {first, second}) {
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.output, HasSubstr(kAnotherSecret));
  }
  EXPECT_THAT(first.output, HasSubstr("rank 1 at the job's store 127.0.0.1:" + port));
  EXPECT_THAT(second.output, HasSubstr("rank 0 at the job's store 127.0.0.1:" + port));
}

TEST(Strangers, WithAnotherSecretAreFoundAtOnceOnBothSides) { meet_with_two_secrets(/*one_host=*/true); }
TEST(Strangers, OfAnotherHostWithAnotherSecretAreFoundAtOnce) { meet_with_two_secrets(/*one_host=*/false); }

TEST(Strangers, WithNoSecretAreFoundAtOnce) {
  const std::string port = free_port();
  const auto [first, second] =
      testing::run_two_processes(sum_two_ranks, variables_of(0, port, {"FSDP_JOB_SECRET=ours"}), variables_of(1, port));
  for (const RunResult& result : {first, second}) {
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.output, HasSubstr(kAnotherSecret));
  }
  EXPECT_THAT(second.output, HasSubstr("(whose secret is: none)"));
}

// One that has reached the store while the job runs.
void write_everywhere() {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(std::stoi(std::getenv("MASTER_PORT")));
  options.waitWorkers = false;
  options.timeout = testing::test_options().timeout;
  c10d::TCPStore store("127.0.0.1", options);
  for (const char* key : {"fsdp/member/0", "fsdp/member/1", "fsdp/ended", "split0/0/world/shm/0",
                          "split0/0/world/shm/1", "split0/0/world/0", "split0/0/world/1", "split0/0/world/rank_0"})
    store.set(key, std::vector<uint8_t>{'1', ' ', '2', ' ', '3'});
}

void write_everywhere_and_go_on(bool one_host) {
  const std::string port = free_port();
  const auto body = [] {
    return launch(testing::patient_options(), [](World& world) {
      if (world.rank() == 1) write_everywhere();
      world.barrier();
      world.split(0).barrier();
    });
  };
  const auto [first, second] =
      testing::run_two_processes(body, variables_of(0, port, {"FSDP_JOB_SECRET=ours"}, one_host),
                                 variables_of(1, port, {"FSDP_JOB_SECRET=ours"}, one_host));
  EXPECT_EQ(first.exit_code, 0) << first.output;
  EXPECT_EQ(second.exit_code, 0) << second.output;
}

TEST(Strangers, ThatWriteWhereTheyThinkTheRanksReadDisturbNobody) { write_everywhere_and_go_on(/*one_host=*/true); }
TEST(Strangers, ThatWriteThereDisturbNobodyOnSeveralHosts) { write_everywhere_and_go_on(/*one_host=*/false); }

std::pair<RunResult, RunResult> sum_on_two_hosts(const std::string& port, const Variables& more) {
  return testing::run_two_processes(sum_two_ranks, variables_of(0, port, more, /*one_host=*/false),
                                    variables_of(1, port, more, /*one_host=*/false));
}

TEST(Strangers, AreSpokenOfOnceWhereAnybodyCanBeOne) {
  const std::string port = free_port();
  const auto [first, second] = sum_on_two_hosts(port, {});
  EXPECT_EQ(first.exit_code, 0) << first.output;
  EXPECT_THAT(first.output,
              HasSubstr("any program that reaches the job's store at 127.0.0.1:" + port + " can join this job"));
  EXPECT_THAT(first.output, HasSubstr("FSDP_JOB_SECRET"));
  EXPECT_THAT(second.output, Not(HasSubstr("whoever")));
}

TEST(Strangers, AreNotSpokenOfWhereThereIsASecret) {
  const auto [first, second] = sum_on_two_hosts(free_port(), {"FSDP_JOB_SECRET=ours"});
  EXPECT_EQ(first.exit_code, 0) << first.output;
  EXPECT_THAT(first.output + second.output, Not(HasSubstr("whoever")));
}

}  // namespace
}  // namespace fsdp
