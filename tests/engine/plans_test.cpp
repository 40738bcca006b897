// Steps that are not one forward and its backward after the other: from the second step on, every gather is foreseen.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <functional>

#include "support/drawn.h"
#include "support/gan.h"
#include "support/models.h"
#include "support/oracle.h"
#include "support/repeated_models.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::Job;
using fsdp::testing::run_ranks;
using testing_models::make_plain_residual;
using testing_models::Residual;
using testing_models::TestModel;
using torch::Tensor;

constexpr int kPlannedSteps = 4;

class Plans : public ::testing::TestWithParam<Job> {};

// Returns how the last of several steps communicated; after the first, each gather is foreseen.
CommunicationReport expect_foreseen(const TestModel& model, World& world,
                                    const std::function<void(const TestModel&, int64_t)>& backwards) {
  auto sharded = shard(*model.module, world);
  AdamW optimizer(sharded);
  CommunicationReport of_step;
  for (int step = 0; step < kPlannedSteps; ++step) {
    const CommunicationReport before = sharded.communication();
    backwards(model, step * world.size() + world.rank());
    optimizer.step();
    optimizer.zero_grad();
    of_step = sharded.communication().since(before);
    if (step > 0) {
      EXPECT_EQ(of_step.foreseen_gathers, of_step.gathers) << "step " << step;
      EXPECT_EQ(of_step.late_gradients, 0) << "step " << step;
    }
  }
  return of_step;
}

TEST_P(Plans, ForeseeEachBackwardOfARetainedGraph) {
  run_ranks(GetParam(), [](World& world) {
    expect_foreseen(make_plain_residual(), world, [](const TestModel& model, int64_t batch) {
      const Tensor loss = model.loss(batch);
      loss.backward({}, /*retain_graph=*/true);
      loss.backward();
    });
  });
}

TEST_P(Plans, ForeseeAGradientPenalty) {
  run_ranks(GetParam(), [](World& world) {
    expect_foreseen(testing_models::make_gradient_penalty(), world,
                    [](const TestModel& model, int64_t batch) { model.loss(batch).backward(); });
  });
}

TEST_P(Plans, ForeseeTheStepsOfAGanThatTakeTurns) {
  run_ranks(GetParam(), [](World& world) {
    testing_models::Gan gan;
    auto generator = shard(*gan.generator, world), discriminator = shard(*gan.discriminator, world);
    AdamW of_generator(generator), of_discriminator(discriminator);
    for (int step = 0; step < kPlannedSteps; ++step) {
      const CommunicationReport before_g = generator.communication(), before_d = discriminator.communication();
      const int64_t batch = step * world.size() + world.rank();
      gan.discriminator_loss(batch).backward();
      of_discriminator.step();
      of_discriminator.zero_grad();
      gan.generator_loss(batch).backward();
      of_generator.step();
      of_generator.zero_grad();
      of_discriminator.zero_grad();
      if (step < 2) continue;
      const CommunicationReport of_g = generator.communication().since(before_g),
                                of_d = discriminator.communication().since(before_d);
      EXPECT_EQ(of_g.foreseen_gathers, of_g.gathers) << "step " << step;
      EXPECT_EQ(of_d.foreseen_gathers, of_d.gathers) << "step " << step;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Of, Plans, drawn<Job>({{2, "shm"}}, {{2, "gloo"}, {3, "gloo"}}),
                         ::testing::PrintToStringParamName());

// Activation checkpointing as users write it: the forward keeps no graph, the backward runs the layer again.
struct CheckpointedLayer : torch::autograd::Function<CheckpointedLayer> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, Residual* net, int64_t layer) {
    context->save_for_backward({x});
    context->saved_data["net"] = reinterpret_cast<int64_t>(net);
    context->saved_data["layer"] = layer;
    return net->layer(layer, x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto* net = reinterpret_cast<Residual*>(context->saved_data["net"].toInt());
    const Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    {
      torch::AutoGradMode grad(true);
      net->layer(context->saved_data["layer"].toInt(), x).backward(gradients[0]);
    }
    return {x.grad(), Tensor(), Tensor()};
  }
};

enum class By { ActivationCheckpoint, AFunctionOfTheUsers };

Tensor checkpointed_layer(By by, Residual& net, int64_t layer, const Tensor& x) {
  if (by == By::AFunctionOfTheUsers) return CheckpointedLayer::apply(x, &net, layer);
  return activation_checkpoint([&net, layer](const Tensor& input) { return net.layer(layer, input); }, x);
}

// The first layers are checkpointed, so many of them.
TestModel make_checkpointed(int64_t layers, By by) {
  return testing_models::residual_with([layers, by](Residual& net, int64_t b) {
    Tensor x = testing_models::residual_input(b).requires_grad_();
    for (int64_t layer = 0; layer < testing_models::kResidualBlocks; ++layer)
      x = layer < layers ? checkpointed_layer(by, net, layer, x) : net.layer(layer, x);
    return x.pow(2).mean();
  })();
}

class CheckpointedFirstBlock : public ::testing::TestWithParam<Job> {};

TEST_P(CheckpointedFirstBlock, HasTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    for (int64_t layers : {1, 2, 3}) {
      SCOPED_TRACE(layers);
      const auto make = [=] { return make_checkpointed(layers, By::AFunctionOfTheUsers); };
      testing_models::expect_same_bits_with_every_strategy(make, world, {.steps = 4, .micro_batches = 6});
    }
  });
}

TEST_P(CheckpointedFirstBlock, BelongsToTheTrainingPlan) {
  run_ranks(GetParam(), [](World& world) {
    constexpr int64_t kLayers = testing_models::kResidualBlocks;
    for (const auto& [by, evaluates] :
         {std::pair(By::ActivationCheckpoint, false), std::pair(By::ActivationCheckpoint, true),
          std::pair(By::AFunctionOfTheUsers, false), std::pair(By::AFunctionOfTheUsers, true)}) {
      const bool with_evaluation = evaluates;
      const CommunicationReport report =
          expect_foreseen(make_checkpointed(1, by), world, [=](const TestModel& model, int64_t batch) {
            model.loss(batch).backward();
            if (!with_evaluation) return;
            torch::NoGradGuard no_grad;
            for (int64_t other : {100, 101}) model.loss(other);
          });
      EXPECT_EQ(report.reductions, kLayers);
      // Of its two layers that the forward ended with, the backward needs no gather.
      if (!evaluates) EXPECT_EQ(report.gathers, world.size() > 1 ? kLayers + kLayers - 2 : 0);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Of, CheckpointedFirstBlock,
                         drawn<Job>({{2, "shm"}, {3, "gloo"}}, {{1, "shm"}, {3, "shm"}, {2, "gloo"}}),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace fsdp
