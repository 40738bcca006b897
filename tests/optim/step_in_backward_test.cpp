// A step that begins while the backward runs has the bits of one that comes after it, and says what it cannot do.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/model.h"
#include "support/drawn.h"
#include "support/experts.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/repeated_models.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/tied_models.h"
#include "support/train_sharded.h"
#include "support/unusual_models.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::Hosts;
using fsdp::testing::Job;
using fsdp::testing::message_of;
using fsdp::testing::run_on_hosts;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing_models::differences;
using testing_models::every_strategy;
using testing_models::expect_same_bits;
using testing_models::Expected;
using testing_models::make_gpt;
using testing_models::TestModel;
using testing_models::Training;
using testing_models::whole_weights;

// Six blocks, so that the backward is done with some long before it ends.
TestModel make_blocks() { return make_gpt(6); }

std::vector<testing_models::ModelKind> kinds() {
  using testing_models::Tied;
  std::vector<testing_models::ModelKind> kinds = testing_models::model_kinds();
  kinds.push_back({"six blocks", make_blocks});
  kinds.push_back({"experts", testing_models::make_experts});
  kinds.push_back({"adapters", [] { return testing_models::make_adapters(); }});
  kinds.push_back({"unused on all ranks", testing_models::make_unused_on_all_ranks});
  kinds.push_back({"unused on some ranks", testing_models::make_unused_on_some_ranks});
  kinds.push_back({"called several times", testing_models::make_called_several_times});
  kinds.push_back({"gradient penalty", testing_models::make_gradient_penalty});
  kinds.push_back({"tied across units", [] { return testing_models::make_tied(Tied::Across); }});
  return kinds;
}

class StepInBackwardOf : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(Jobs, StepInBackwardOf,
                         drawn<Job>({Job{2, "gloo"}, Job{3, "shm"}}, {Job{1, "auto"}, Job{4, "gloo"}}),
                         ::testing::PrintToStringParamName());

// Four ranks are for the strategies that three cannot have.
std::vector<std::pair<std::string, Options>> strategies_of(const Job& job) {
  auto strategies = every_strategy(job.ranks);
  if (job.ranks == 4) strategies.erase(strategies.begin(), strategies.begin() + 4);
  return strategies;
}

TEST_P(StepInBackwardOf, EveryModelByEveryStrategyHasTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    for (const auto& [name, make] : kinds()) {
      Expected expected(make, {.steps = 4, .micro_batches = world.size(), .in_backward_every = 1});
      for (const auto& [strategy, options] : strategies_of(GetParam())) {
        SCOPED_TRACE(name + ", " + strategy);
        expect_same_bits(expected, world, options);
      }
    }
  });
}

// Those that the next forward uses first are gathered while the backward still runs.
TEST_P(StepInBackwardOf, EveryModelWithABufferForEachUnitHasTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    for (const auto& [name, make] : kinds()) {
      SCOPED_TRACE(name);
      expect_same_bits(make, world, {.steps = 4, .micro_batches = world.size(), .in_backward_every = 1},
                       {.buffers = 8, .prefetch = 7});
    }
  });
}

TEST_P(StepInBackwardOf, AccumulatedMicroBatchesInSixteenBitsHasTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    for (const auto& dtype : {std::optional<torch::ScalarType>(), std::optional(torch::kBFloat16)}) {
      Expected expected(make_blocks,
                        {.steps = 4, .micro_batches = 3 * world.size(), .param_dtype = dtype, .in_backward_every = 1});
      for (const auto& [strategy, options] : strategies_of(GetParam())) {
        SCOPED_TRACE(strategy + (dtype ? ", bf16" : ""));
        Options with = options;
        with.mixed_precision.param_dtype = dtype;
        expect_same_bits(expected, world, with);
      }
    }
  });
}

TEST_P(StepInBackwardOf, AStepCommunicatesWhatOneAfterItDoes) {
  run_ranks(GetParam(), [](World& world) {
    auto strategies = strategies_of(GetParam());
    strategies.push_back({"a buffer for each unit", {.buffers = 8, .prefetch = 7}});
    Expected ends_after(make_blocks, {.steps = 4, .micro_batches = world.size()});
    Expected ends_inside(make_blocks, {.steps = 4, .micro_batches = world.size(), .in_backward_every = 1});
    for (const auto& [strategy, options] : strategies) {
      SCOPED_TRACE(strategy);
      const CommunicationReport after = expect_same_bits(ends_after, world, options);
      const CommunicationReport inside = expect_same_bits(ends_inside, world, options);
      EXPECT_EQ(inside.gathers, after.gathers);
      EXPECT_EQ(inside.foreseen_gathers, after.foreseen_gathers);
      EXPECT_EQ(inside.reductions, after.reductions);
      EXPECT_EQ(inside.late_gradients, 0);
    }
  });
}

TEST(StepInBackwardOnHosts, HasTheBitsOfOneProcess) {
  run_on_hosts({}, [](World& world) {
    const Training training{.steps = 4, .micro_batches = 2 * world.size(), .in_backward_every = 1};
    Expected blocks(make_blocks, training), experts(testing_models::make_experts, training);
    for (const auto& [strategy, options] : every_strategy(world.size())) {
      SCOPED_TRACE(strategy);
      expect_same_bits(blocks, world, options);
      expect_same_bits(experts, world, options);
    }
  });
}

bool has_gradients(const ShardedModel& sharded, const engine::ShardedUnit& unit) {
  const auto first = sharded.parameters().begin() + static_cast<int64_t>(unit.first_piece);
  return std::any_of(first, first + static_cast<int64_t>(unit.parameters.size()),
                     [](const ShardedParameter& parameter) { return parameter.piece.grad().defined(); });
}

// A model that has made two steps, so that there is a plan.
struct TrainedTwoSteps {
  explicit TrainedTwoSteps(World& world, const Options& options = {})
      : model(make_blocks()),
        sharded(shard(*model.module, world, options)),
        optimizer(sharded, {.lr = 1e-2}),
        rank(world.rank()) {
    for (int step = 0; step < 2; ++step) step_in_backward(step);
  }
  void step_in_backward(int step) {
    backward(step);
    optimizer.step();
  }
  void backward(int step) {
    auto in_backward = optimizer.step_in_backward();
    model.loss(2 * step + rank).backward();
  }

  TestModel model;
  ShardedModel sharded;
  AdamW optimizer;
  int rank;
};

class StepInBackwardOnOneOrTwo : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(Jobs, StepInBackwardOnOneOrTwo,
                         ::testing::Values(Job{1, "auto"}, Job{2, "gloo"}, Job{2, "shm"}),
                         ::testing::PrintToStringParamName());

TEST_P(StepInBackwardOnOneOrTwo, GivesGradientsBackAsSoonAsTheyAreUsed) {
  run_ranks(GetParam(), [](World& world) {
    TrainedTwoSteps trained(world);
    const torch::Tensor loss = trained.model.loss(world.rank());
    const int64_t before = trained.sharded.memory().gradient_bytes;
    {
      auto in_backward = trained.optimizer.step_in_backward();
      loss.backward();
    }
    int64_t left = 0;  // bytes of those that are reduced at the end of the backward
    for (const auto& unit : trained.sharded.model().units()) {
      const bool done = unit->name >= "blocks.2" && unit->name <= "blocks.5";
      EXPECT_EQ(has_gradients(trained.sharded, *unit), !done) << unit->name;
      if (!done) left += 4 * unit->sum.gradient_layout().shard_of(world.rank()).numel();
    }
    EXPECT_GT(trained.sharded.memory().gradient_bytes, 0);
    EXPECT_LE(trained.sharded.memory().gradient_bytes, left);
    trained.optimizer.step();
    for (const auto& unit : trained.sharded.model().units()) EXPECT_FALSE(has_gradients(trained.sharded, *unit));
    EXPECT_EQ(trained.sharded.memory().gradient_bytes, 0);
    EXPECT_EQ(before, 0);
  });
}

TEST_P(StepInBackwardOnOneOrTwo, CountsEachStepOnce) {
  run_ranks(GetParam(), [](World& world) {
    TrainedTwoSteps trained(world);
    trained.step_in_backward(2);
    const Optimizer::ElementState counts = trained.optimizer.state().scalars.at(0);
    EXPECT_EQ(counts.name, "step");
    for (const torch::Tensor& count : counts.tensors) EXPECT_EQ(count.item<float>(), 3);
  });
}

// Each leaves the step as it is, which can be ended afterwards.
TEST_P(StepInBackwardOnOneOrTwo, RefusesWhatComesBeforeTheStepIsEnded) {
  run_ranks(GetParam(), [](World& world) {
    TrainedTwoSteps trained(world), expected(world);
    ShardedModel& sharded = trained.sharded;
    const torch::Tensor loss = trained.model.loss(4 + world.rank());
    auto in_backward = trained.optimizer.step_in_backward();
    loss.backward({}, /*retain_graph=*/true);

    const auto refused = [](const std::function<void()>& body) { return message_of<Error>(body); };
    const auto gone = AllOf(HasSubstr("step_in_backward"), HasSubstr("gradients are gone"));
    EXPECT_THAT(refused([&] { sharded.clip_grad_norm_(1); }), gone);
    GradScaler scaler;
    EXPECT_THAT(refused([&] { scaler.unscale_(sharded); }), gone);
    EXPECT_THAT(refused([&] { scaler.step(trained.optimizer); }), gone);
    for (const ShardedParameter& parameter : sharded.parameters()) {
      if (const torch::Tensor gradient = parameter.piece.grad(); gradient.defined())
        EXPECT_THAT(refused([&] { gradient.abs(); }), gone) << parameter.name;
    }
    const auto first = HasSubstr("Call the optimizer's step() first");
    EXPECT_THAT(refused([&] { sharded.zero_grad(); }), first);
    EXPECT_THAT(refused([&] { sharded.set_gradient_divisor(2); }), first);
    EXPECT_THAT(refused([&] { trained.optimizer.set_lr(1); }), first);
    EXPECT_THAT(refused([&] { sharded.full_state(); }), first);
    EXPECT_THAT(refused([&] { sharded.full_parameters(); }), first);
    torch::NoGradGuard no_grad;
    EXPECT_THAT(refused([&] { sharded.shards()[0].add_(1); }), first);
    const auto one_backward = HasSubstr("holds for one backward");
    EXPECT_THAT(refused([&] { trained.model.loss(0); }), one_backward);
    EXPECT_THAT(refused([&] { loss.backward(); }), one_backward);
    EXPECT_THAT(refused([&] { (void)trained.optimizer.step_in_backward(); }), HasSubstr("step not ended"));
    AdamW other(sharded);
    EXPECT_THAT(refused([&] { other.step(); }), HasSubstr("another optimizer has begun this step"));

    trained.optimizer.step();
    torch::AutoGradMode grad(true);
    expected.step_in_backward(2);
    EXPECT_THAT(differences(whole_weights(*expected.model.module, expected.sharded),
                            whole_weights(*trained.model.module, sharded)),
                IsEmpty());
  });
}

// Each rank's own shards.
std::vector<torch::Tensor> copies_of_shards(const ShardedModel& sharded) {
  std::vector<torch::Tensor> copies;
  for (const torch::Tensor& shard : sharded.shards()) copies.push_back(shard.clone());
  return copies;
}

TEST_P(StepInBackwardOnOneOrTwo, RefusesAScaledLossBeforeAnythingIsStepped) {
  run_ranks(GetParam(), [](World& world) {
    TrainedTwoSteps trained(world), expected(world);
    const std::vector<torch::Tensor> before = copies_of_shards(trained.sharded);
    GradScaler scaler;
    const torch::Tensor loss = scaler.scale(trained.model.loss(4 + world.rank()));
    {
      auto in_backward = trained.optimizer.step_in_backward();
      EXPECT_THAT(message_of<Error>([&] { loss.backward(); }),
                  AllOf(HasSubstr("GradScaler"), HasSubstr("Nothing was stepped")));
    }
    const std::vector<torch::Tensor> after = copies_of_shards(trained.sharded);
    for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(torch::equal(before[i], after[i])) << i;

    for (TrainedTwoSteps* one : {&trained, &expected}) {
      GradScaler own;
      own.scale(one->model.loss(4 + world.rank())).backward();
      EXPECT_TRUE(own.step(one->optimizer));
      one->optimizer.zero_grad();
    }
    EXPECT_THAT(differences(whole_weights(*expected.model.module, expected.sharded),
                            whole_weights(*trained.model.module, trained.sharded)),
                IsEmpty());
  });
}

TEST_P(StepInBackwardOnOneOrTwo, AScopeWithoutABackwardIsNone) {
  run_ranks(GetParam(), [](World& world) {
    TrainedTwoSteps trained(world);
    { auto in_backward = trained.optimizer.step_in_backward(); }
    trained.model.loss(world.rank()).backward();
    EXPECT_GT(trained.sharded.clip_grad_norm_(1), 0);
    trained.optimizer.step();
    trained.optimizer.zero_grad();
    auto in_backward = trained.optimizer.step_in_backward();
    EXPECT_THAT(message_of<Error>([&] { trained.optimizer.step(); }), HasSubstr("Call backward first"));
  });
}

TEST_P(StepInBackwardOnOneOrTwo, GradientsThatNoSyncLeftAreStepped) {
  run_ranks(GetParam(), [](World& world) {
    TrainedTwoSteps trained(world), expected(world);
    for (TrainedTwoSteps* one : {&trained, &expected}) {
      for (int step = 2; step < 4; ++step) {
        {
          auto no_sync = one->sharded.no_sync();
          one->model.loss(2 * step + world.rank()).backward();
        }
        std::optional<StepInBackward> in_backward;
        if (one == &trained) in_backward.emplace(one->optimizer.step_in_backward());
        one->model.loss(100 + world.rank()).backward();
        one->optimizer.step();
        one->optimizer.zero_grad();
      }
    }
    EXPECT_THAT(differences(whole_weights(*expected.model.module, expected.sharded),
                            whole_weights(*trained.model.module, trained.sharded)),
                IsEmpty());
  });
}

TEST(StepInBackward, GathersForTheNextForwardWhereThereIsABuffer) {
  run_ranks(Job{2, "gloo"}, [](World& world) {
    TrainedTwoSteps trained(world, {.buffers = 8, .prefetch = 7});
    const std::string schedule = trained.sharded.schedule();
    EXPECT_THAT(schedule, ContainsRegex("\nbackward +blocks.4 +blocks.5@"));
    EXPECT_THAT(schedule, ContainsRegex("\nstep +root@[0-9], blocks.0@[0-9]"));
    EXPECT_THAT(schedule, Not(ContainsRegex("\nforward +[^ ]+ +[^ ]+@")));
  });
}

TEST(StepInBackward, IsRefusedByMuon) {
  run_ranks(1, [](World& world) {
    auto model = make_blocks();
    auto sharded = shard(*model.module, world);
    Muon optimizer(sharded);
    EXPECT_THAT(message_of<Error>([&] { (void)optimizer.step_in_backward(); }),
                AllOf(HasSubstr("Muon"), HasSubstr("whole matrices"), HasSubstr("AdamW")));
  });
}

TEST(StepInBackward, OfRanksOfWhichSomeHaveNoBatch) {
  for (const char* backend : {"shm", "gloo"}) {
    run_ranks(Job{2, backend}, [](World& world) {
      const auto train = [&](bool in_backward) {
        auto model = make_blocks();
        auto sharded = shard(*model.module, world);
        AdamW optimizer(sharded, {.lr = 1e-2});
        const int batches = world.rank() == 0 ? 6 : 4;
        for (int step = 0; sharded.any_rank_has_batch(step < batches); ++step) {
          std::optional<StepInBackward> scope;
          if (in_backward) scope.emplace(optimizer.step_in_backward());
          step < batches ? model.loss(2 * step + world.rank()).backward() : sharded.backward_without_batch();
          optimizer.step();
          optimizer.zero_grad();
        }
        return whole_weights(*model.module, sharded);
      };
      EXPECT_THAT(differences(train(false), train(true)), IsEmpty());
    });
  }
}

}  // namespace
}  // namespace fsdp
