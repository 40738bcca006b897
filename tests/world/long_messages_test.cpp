// Messages longer than a ring, whose sender waits elsewhere for something that comes only after the message.
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "support/required.h"
#include "support/run_ranks.h"
#include "world/two_hosts.h"

namespace fsdp {
namespace {

using testing::run_ranks;
using testing::TwoHosts;

torch::Tensor values() { return torch::arange(int64_t{16} << 20, torch::kFloat32); }  // 64 MiB

// Rank 0 sends rank 1 a long message along the last axis, and then does `elsewhere` with rank 2 along the first one.
// Rank 2 comes when rank 1 has the message. Rank 3 is there for the grid.
void send_and_wait_elsewhere(const Mesh& mesh, const std::function<void(World along_first)>& elsewhere) {
  World all = mesh.world(), along_first = mesh["data"], along_last = mesh["tensor"];
  torch::Tensor told = torch::zeros({1});
  if (all.rank() == 0) {
    Work sent = along_last.send_async(values(), 1);
    elsewhere(along_first);
    sent.wait();
  } else if (all.rank() == 1) {
    torch::Tensor received = torch::zeros_like(values());
    along_last.receive_(received, 0);
    EXPECT_TRUE(received.equal(values()));
    all.send(told, 2);
  } else if (all.rank() == 2) {
    all.receive_(told, 1);
    elsewhere(along_first);
  }
  all.barrier();
}

Mesh two_by_two(World& world) { return Mesh(world, {{"data", 2}, {"tensor", 2}}); }

// One unit of 64 weights: 0 at first, and -0.5 after a step.
struct Trained {
  explicit Trained(World& world) : sharded(shard(*zeroed(layer), world, {.units = one_unit()})) {}
  torch::Tensor loss() { return layer->forward(torch::ones({2, 8})).sum(); }

  torch::nn::Linear layer{torch::nn::LinearOptions(8, 8).bias(false)};
  ShardedModel sharded;
  SGD optimizer{sharded, {.lr = 0.25}};

 private:
  static torch::nn::Linear& zeroed(torch::nn::Linear& layer) {
    torch::NoGradGuard no_grad;
    layer->weight.zero_();
    return layer;
  }
};
constexpr float kLossAfterOneStep = 2 * 64 * -0.5f;

TEST(LongMessages, MoveInACollectiveOfAnotherWorld) {
  run_ranks(4, [](World& world) {
    send_and_wait_elsewhere(two_by_two(world), [](World along) {
      torch::Tensor ones = torch::ones({4});
      along.all_reduce_(ones);
      EXPECT_EQ(ones[0].item<float>(), 2);
    });
  });
}

TEST(LongMessages, MoveInAMessageOfAnotherWorld) {
  run_ranks(4, [](World& world) {
    send_and_wait_elsewhere(two_by_two(world), [](World along) {
      torch::Tensor number = torch::full({1}, along.rank());
      along.rank() == 1 ? along.send(number, 0) : along.receive_(number, 1);
      EXPECT_EQ(number.item<int64_t>(), 1);
    });
  });
}

TEST(LongMessages, MoveWhileACollectiveBesideTheProgramIsAwaited) {
  run_ranks(4, [](World& world) {
    send_and_wait_elsewhere(two_by_two(world), [](World along) {
      for (int i = 0; i < 2; ++i) {  // the first one connects the ranks
        torch::Tensor ones = torch::ones({4});
        along.all_reduce_async_(ones).wait();
        EXPECT_EQ(ones[0].item<float>(), 2);
      }
    });
  });
}

TEST(LongMessages, MoveWhileRanksAreConnected) {
  run_ranks(4, [](World& world) {
    send_and_wait_elsewhere(two_by_two(world), [](World along) { EXPECT_EQ(along.split(0).size(), 2); });
  });
}

// Rank 0 writes its shard when rank 2 does not read it any more.
TEST(LongMessages, MoveInAStepOfAModel) {
  run_ranks(4, [](World& world) {
    const Mesh mesh = two_by_two(world);
    World along_first = mesh["data"];
    Trained model(along_first);
    model.loss().backward();
    send_and_wait_elsewhere(mesh, [&](World) { model.optimizer.step(); });
    if (world.rank() % 2 == 0) EXPECT_EQ(model.loss().item<float>(), kLossAfterOneStep);
  });
}

TEST(LongMessages, MoveInAReductionOfAModel) {
  run_ranks(4, [](World& world) {
    const Mesh mesh = two_by_two(world);
    World along_first = mesh["data"];
    Trained model(along_first);
    const torch::Tensor loss = model.loss();
    send_and_wait_elsewhere(mesh, [&](World) { loss.backward(); });
  });
}

TEST(LongMessages, MoveWhileTheProgramAsksWhetherTheyAreDone) {
  run_ranks(4, [](World& world) {
    World other = world.split(0);
    torch::Tensor told = torch::zeros({1});
    if (world.rank() == 0) {
      Work sent = world.send_async(values(), 1), answer = other.receive_async_(told, 1);
      while (!answer.done()) {
      }
      sent.wait();
      answer.wait();
    } else if (world.rank() == 1) {
      torch::Tensor received = torch::zeros_like(values());
      world.receive_(received, 0);
      other.send(told, 0);
    }
    world.barrier();
  });
}

#ifdef FSDP_WITH_GLOO
// Neighbours are on one host and share memory. The first axis goes over Gloo.
void run_on_two_hosts(const std::function<void(const Mesh& mesh)>& body) {
  const TwoHosts hosts;
  if (!hosts.problem().empty()) FSDP_SKIP_TEST(hosts.problem());
  std::vector<std::vector<std::string>> variables;
  for (int rank = 0; rank < 4; ++rank) variables.push_back(hosts.variables(rank));
  const auto results = testing::run_processes(
      [&] {
        TwoHosts::enter();
        return launch(testing::test_options(), [&](World& world) { body(two_by_two(world)); });
      },
      variables);
  for (const testing::RunResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST(LongMessagesOnTwoHosts, MoveInACollectiveOverGloo) {
  run_on_two_hosts([](const Mesh& mesh) {
    send_and_wait_elsewhere(mesh, [](World along) {
      EXPECT_EQ(along.local_size(), 1);
      torch::Tensor ones = torch::ones({4});
      along.all_reduce_(ones);
      EXPECT_EQ(ones[0].item<float>(), 2);
    });
  });
}

TEST(LongMessagesOnTwoHosts, MoveInAGatherOverGloo) {
  run_on_two_hosts([](const Mesh& mesh) {
    World along_first = mesh["data"];
    Trained model(along_first);
    model.loss().backward();
    const bool publishes_late = mesh.world().rank() == 2;
    if (!publishes_late) model.optimizer.step();
    send_and_wait_elsewhere(mesh, [&](World) {
      if (publishes_late) model.optimizer.step();
      EXPECT_EQ(model.loss().item<float>(), kLossAfterOneStep);
    });
  });
}
#endif

}  // namespace
}  // namespace fsdp
