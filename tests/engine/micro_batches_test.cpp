// Several micro-batches in flight: forwards and backwards in other orders than one after the other.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "support/drawn.h"
#include "support/models.h"
#include "support/oracle.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::Job;
using fsdp::testing::run_ranks;
using ::testing::IsEmpty;
using testing_models::make_gpt;
using testing_models::TestModel;

constexpr int kMicroBatches = 4, kMicroBatchSteps = 2;
constexpr double kMicroBatchRate = 1e-2;

// Forwards (+) and backwards (-) of micro-batches by their numbers, counted from 1.
struct Order {
  const char* name;
  std::vector<int> events;
  bool evaluates = false;  // between each forward and what follows
};

const std::vector<Order>& orders() {
  static const std::vector<Order> orders{
      {"AllForwardAllBackward", {1, 2, 3, 4, -1, -2, -3, -4}},
      {"BackwardsInReverse", {1, 2, 3, 4, -4, -3, -2, -1}},
      {"OneForwardOneBackward", {1, 2, -1, 3, -2, 4, -3, -4}},
      {"AnEvaluationBetween", {1, -1, 2, -2, 3, -3, 4, -4}, true},
  };
  return orders;
}

// Runs a step; `loss` takes the number of a micro-batch, from 0. With a model, they get names.
template <typename Loss>
void run(const Order& order, const TestModel& model, Loss loss, ShardedModel* naming = nullptr) {
  std::vector<torch::Tensor> open(kMicroBatches + 1);
  for (int event : order.events) {
    std::optional<MicroBatch> scope;
    if (naming != nullptr) scope.emplace(*naming, std::abs(event));
    if (event < 0) {
      std::exchange(open[-event], {}).backward();
      continue;
    }
    open[event] = loss(event - 1);
    scope.reset();
    if (!order.evaluates) continue;
    torch::NoGradGuard no_grad;
    model.loss(99);
  }
}

// Each backward adds its gradients, summed up over the ranks in their order, to those of the backwards before.
testing_models::Weights train_by_that_order(const Order& order, int ranks) {
  const auto model = make_gpt();
  testing_models::Unsharded unsharded(model.module, {.micro_batches = ranks * kMicroBatches, .lr = kMicroBatchRate});
  for (int step = 0; step < kMicroBatchSteps; ++step) {
    for (int event : order.events) {
      for (int rank = 0; event < 0 && rank < ranks; ++rank)
        unsharded.add([&] { return model.loss((step * kMicroBatches - event - 1) * ranks + rank); });
    }
    unsharded.step();
  }
  return unsharded.weights();
}

testing_models::Weights train(const Order& order, World& world, Strategy strategy, bool names) {
  const auto model = make_gpt();
  auto sharded = shard(*model.module, world, {.strategy = strategy});
  sharded.set_gradient_divisor(world.size() * kMicroBatches);
  AdamW optimizer(sharded, {.lr = kMicroBatchRate});
  for (int step = 0; step < kMicroBatchSteps; ++step) {
    run(
        order, model,
        [&](int batch) { return model.loss((step * kMicroBatches + batch) * world.size() + world.rank()); },
        names ? &sharded : nullptr);
    optimizer.step();
    optimizer.zero_grad();
  }
  return testing_models::whole_weights(*model.module, sharded);
}

class MicroBatchesInFlight : public ::testing::TestWithParam<Job> {};

TEST_P(MicroBatchesInFlight, HaveTheBitsOfOneProcessThatAddsInThatOrder) {
  run_ranks(GetParam(), [](World& world) {
    for (const Order& order : orders()) {
      const testing_models::Weights expected = train_by_that_order(order, world.size());
      for (Strategy strategy : {Strategy::FullShard, Strategy::ShardGradOp, Strategy::NoShard}) {
        for (bool names : {false, true}) {
          EXPECT_THAT(testing_models::differences(expected, train(order, world, strategy, names)), IsEmpty())
              << order.name << ", strategy " << static_cast<int>(strategy) << ", with names " << names;
        }
      }
    }
  });
}

TEST_P(MicroBatchesInFlight, AreForeseenAfterTheFirstStep) {
  run_ranks(GetParam(), [](World& world) {
    for (size_t i = 0; i < 2 * orders().size(); ++i) {
      const Order& order = orders()[i / 2];
      const auto model = make_gpt();
      auto sharded = shard(*model.module, world);
      AdamW optimizer(sharded, {.lr = kMicroBatchRate});
      for (int step = 0; step < 3; ++step) {
        const CommunicationReport before = sharded.communication();
        run(
            order, model, [&](int batch) { return model.loss(batch * world.size() + world.rank()); },
            i % 2 == 1 ? &sharded : nullptr);
        optimizer.step();
        optimizer.zero_grad();
        const CommunicationReport of_step = sharded.communication().since(before);
        if (step > 0) EXPECT_EQ(of_step.foreseen_gathers, of_step.gathers) << order.name << ", step " << step;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Of, MicroBatchesInFlight,
                         drawn<Job>({{2, "shm"}, {3, "gloo"}}, {{1, "shm"}, {3, "shm"}, {2, "gloo"}}),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace fsdp
