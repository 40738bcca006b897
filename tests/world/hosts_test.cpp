// Four ranks on two hosts.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>

#include "support/models.h"
#include "support/required.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"
#include "world/two_hosts.h"

namespace fsdp {
namespace {

using testing::TwoHosts;

using Variables = std::vector<std::string>;

std::vector<testing::RunResult> run_on(const TwoHosts& hosts, const std::function<void(World&)>& body,
                                       const std::function<Variables(int rank)>& variables_of = {},
                                       LaunchOptions options = testing::test_options()) {
  std::vector<Variables> variables;
  for (int rank = 0; rank < 4; ++rank) variables.push_back(variables_of ? variables_of(rank) : hosts.variables(rank));
  return testing::run_processes(
      [&] {
        TwoHosts::enter();
        return launch(options, body);
      },
      variables);
}

void expect_success(const std::vector<testing::RunResult>& results) {
  for (size_t rank = 0; rank < results.size(); ++rank) {
    EXPECT_EQ(results[rank].exit_code, 0) << "rank " << rank << " wrote:\n" << results[rank].output;
  }
}

// Expects that `body` succeeds in all ranks, or skips where there can be no two hosts.
void run_on_two_hosts(const std::function<void(World&)>& body) {
  const TwoHosts hosts;
  if (!hosts.problem().empty()) FSDP_SKIP_TEST(hosts.problem());
  expect_success(run_on(hosts, body));
}

TEST(Hosts, TellARankWhichOfThemItIsOn) {
  run_on_two_hosts([](World& world) {
    EXPECT_EQ(world.size(), 4);
    EXPECT_EQ(world.local_size(), 2);
    EXPECT_EQ(world.local_rank(), world.rank() % 2);
    EXPECT_EQ(world.split(world.rank() / 2).local_size(), 2);
    EXPECT_EQ(world.split(world.rank() % 2).local_size(), 1);
  });
}

TEST(Hosts, StrategiesGiveTheBitsOfOneProcess) {
  run_on_two_hosts([](World& world) {
    for (Strategy strategy : {Strategy::FullShard, Strategy::ShardGradOp, Strategy::ShardOptimizer, Strategy::NoShard,
                              Strategy::HybridShard, Strategy::HybridShardGradOp}) {
      SCOPED_TRACE(static_cast<int>(strategy));
      testing_models::expect_same_bits([] { return testing_models::make_gpt(); }, world,
                                       {.steps = 5, .micro_batches = 8, .clip = 0.05}, {.strategy = strategy});
    }
  });
}

bool listens(const std::string& address, uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  inet_pton(AF_INET, address.c_str(), &at.sin_addr);
  const bool connected = connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
  close(fd);
  return connected;
}

TEST(Hosts, ReachTheStoreAtItsOneAddress) {
  run_on_two_hosts([](World& world) {
    EXPECT_TRUE(listens("10.0.0.1", 29500));
    EXPECT_FALSE(listens("127.0.0.1", 29500));
    world.barrier();
  });
}

void sum_of_four(World& world) {
  torch::Tensor sum = torch::tensor({static_cast<float>(world.rank())});
  world.all_reduce_(sum);
  EXPECT_EQ(sum.item<float>(), 6);
}

TEST(Hosts, MeetByVersion6) {
  const TwoHosts hosts;
  if (!hosts.problem().empty()) FSDP_SKIP_TEST(hosts.problem());
  expect_success(run_on(hosts, sum_of_four, [&](int rank) { return hosts.variables(rank, TwoHosts::kVersion6); }));
}

// As Debian has it: a host's own name stands for loopback there, and for its address elsewhere.
TEST(Hosts, MeetWhereTheFirstOnesNameIsLoopbackOnItself) {
  const TwoHosts hosts(TwoHosts::DefaultRoute::Cable);
  if (!hosts.problem().empty()) FSDP_SKIP_TEST(hosts.problem());
  expect_success(run_on(hosts, sum_of_four, [&](int rank) {
    return rank < 2 ? hosts.variables(rank, "localhost") : hosts.variables(rank);
  }));
}

TEST(Hosts, ThatCannotBeConnectedSayHowLongTheyTried) {
  const TwoHosts hosts;
  if (!hosts.problem().empty()) FSDP_SKIP_TEST(hosts.problem());
  LaunchOptions options = testing::test_options();
  options.timeout = std::chrono::seconds(5);
  const auto over_loopback = [&](int rank) {
    Variables variables = hosts.variables(rank);
    variables.push_back("GLOO_SOCKET_IFNAME=lo");
    return variables;
  };
  const auto results = run_on(hosts, sum_of_four, over_loopback, options);
  int said = 0;
  for (const testing::RunResult& result : results) {
    EXPECT_EQ(result.exit_code, 1) << result.output;
    said += result.output.find("the 4 ranks were not connected after ") != std::string::npos;
    EXPECT_THAT(result.output, ::testing::Not(::testing::HasSubstr("connected within"))) << result.output;
  }
  EXPECT_GT(said, 0) << results[0].output << results[3].output;
}

// In parts of all parameters' bytes: what the cable carries, to both hosts.
struct Carried {
  double write = 0;  // and two forward passes after it
  // Of one micro-batch each.
  double first_backward = 0;
  double second_backward = 0;
};

Carried carried(World& world, const Options& options) {
  const auto model = testing_models::make_gpt(/*blocks=*/3, /*width=*/128);
  double bytes = 0;
  for (const auto& parameter : model.module->parameters()) bytes += static_cast<double>(parameter.nbytes());
  auto sharded = shard(*model.module, world, options);
  auto received_during = [&](const std::function<void()>& body) {
    world.barrier();
    const long before = TwoHosts::received_bytes();
    body();
    world.barrier();
    torch::Tensor all = torch::tensor(static_cast<double>(TwoHosts::received_bytes() - before), torch::kFloat64);
    world.all_reduce_(all);
    return all.item<double>() / world.local_size() / bytes;
  };
  Carried carried;
  torch::Tensor loss;
  carried.write = received_during([&] {
    sharded.full_parameters().close();
    model.loss(0);
    loss = model.loss(1);
  });
  carried.first_backward = received_during([&] { loss.backward(); });
  loss = model.loss(2);
  carried.second_backward = received_during([&] { loss.backward(); });
  return carried;
}

// The network's own part, barriers and what ranks agree on at the end of backward.
constexpr double kMore = 0.2;

TEST(Hosts, ReductionsCarryAtMostTwiceWhatARingDoes) {
  run_on_two_hosts([](World& world) {
    const Carried carried = fsdp::carried(world, {.full_on_each_host = true});
    // Half of the model lies on the other host.
    EXPECT_GE(carried.write, 1);
    EXPECT_LT(carried.write, 1 + kMore);
    // A ring carries half of the gradients' sums to each host. Here a sum goes from the first host to the second, and
    // back for the half that the first one owns; once there are sums, those of the second host go to the first before.
    EXPECT_GE(carried.first_backward, 1.5);
    EXPECT_LT(carried.first_backward, 1.5 + kMore);
    EXPECT_GE(carried.second_backward, 2);
    EXPECT_LT(carried.second_backward, 2 + kMore);
  });
}

TEST(Hosts, GathersOfHybridShardStayOnTheHost) {
  run_on_two_hosts([](World& world) {
    const Carried carried = fsdp::carried(world, {.strategy = Strategy::HybridShard});
    EXPECT_LT(carried.write, kMore);
    // As with FullShard, and then each host's half of the sums to the other.
    EXPECT_GE(carried.first_backward, 2.5);
    EXPECT_LT(carried.first_backward, 2.5 + kMore);
  });
}

TEST(Hosts, ARankThatIsKilledIsNamedOnAllOthers) {
  const TwoHosts hosts;
  if (!hosts.problem().empty()) FSDP_SKIP_TEST(hosts.problem());
  const auto train = [](World& world) {
    const auto model = testing_models::make_gpt();
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded);
    for (int step = 0;; ++step) {
      if (step == 2 && world.rank() == 3) raise(SIGKILL);
      model.loss(step).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  };
  const auto results = run_on(hosts, train, {}, testing::patient_options());
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(results[rank].exit_code, 1);
    EXPECT_THAT(results[rank].output, ::testing::HasSubstr("rank 3")) << rank;
  }
}

}  // namespace
}  // namespace fsdp
