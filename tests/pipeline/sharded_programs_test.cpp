// Programs around sharded stages: several steps and calls before the optimizer's, scaling, frozen stages, deferral.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/sharded_pipeline.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::HasSubstr;
using testing_models::expect_alike;
using testing_models::FormCase;
using testing_models::four_layers;
using testing_models::input_of;
using testing_models::ShardedPipeline;
using testing_models::square_sum;
using testing_models::tied_stages;

constexpr Strategy kManyStrategies[] = {Strategy::FullShard, Strategy::ShardGradOp, Strategy::ShardOptimizer,
                                        Strategy::NoShard};

// With ties no_sync() has no part in it: its sums end with the next backward of their unit, which a tie divides.
TEST(ShardedPrograms, ManyCallsBeforeAnOptimizersStep) {
  for (const Strategy strategy : kManyStrategies) {
    for (const bool tied : {false, true}) {
      const auto program = [&](ShardedPipeline& model) {
        AdamW optimizer(model.sharded, {.lr = 1e-2});
        std::vector<double> numbers;
        for (int i = 0; i < 3; ++i) {
          numbers.push_back(model.step());
          if (i == 1) model.sharded.zero_grad();
          if (!tied) {
            const auto local = model.sharded.no_sync();
            numbers.push_back(model.step());
          }
          numbers.push_back(model.step());
          model.pipeline.forward({input_of(4)});
          numbers.push_back(model.sharded.clip_grad_norm_(0.3));
          numbers.push_back(model.pipeline.clip_grad_norm_(0.2));
          optimizer.step();
          optimizer.zero_grad();
        }
        return numbers;
      };
      expect_alike(tied ? tied_stages() : four_layers({}), program, {.options = {.strategy = strategy}});
    }
  }
}

// Nothing changes where gradients overflow on one stage alone.
TEST(ShardedPrograms, AllStagesSkipAStepAlike) {
  FormCase form = four_layers({});
  form.blocks[2].forward = [](torch::nn::Module& module, const Tensors& in) -> Tensors {
    torch::Tensor x = module.as<torch::nn::LinearImpl>()->forward(in[0].detach());
    if (in[0].size(0) == 3)
      x.register_hook([](const torch::Tensor& gradient) { return gradient + std::numeric_limits<float>::infinity(); });
    return {x + in[0]};
  };
  expect_alike(form, [](ShardedPipeline& model) {
    AdamW optimizer(model.sharded, {.lr = 1e-2});
    GradScaler scaler({.init_scale = 64});
    std::vector<double> numbers;
    for (int i = 0; i < 2; ++i) {
      const Tensors batches{input_of(0), input_of(i == 0 ? 2 : 1)};
      numbers.push_back(model.pipeline.step(batches, batches, [&](const auto& output, const auto& target) {
        return scaler.scale(square_sum(output, target));
      }));
      numbers.push_back(scaler.step(optimizer));
      EXPECT_EQ(numbers.back(), i);
      scaler.update();
      optimizer.zero_grad();
    }
    return numbers;
  });
}

TEST(ShardedPrograms, AFrozenStage) {
  for (const std::string& frozen : {"ab", "cd", "abc"}) {
    FormCase form = four_layers({});
    for (PipelineBlock& block : form.blocks) {
      if (frozen.find(block.name) == std::string::npos) continue;
      block.make = [make = block.make] {
        auto module = make();
        for (torch::Tensor& parameter : module->parameters()) parameter.requires_grad_(false);
        return module;
      };
    }
    expect_alike(form, [&](ShardedPipeline& model) {
      AdamW optimizer(model.sharded, {.lr = 1e-2});
      GradScaler scaler({.init_scale = 64});
      std::vector<double> numbers;
      for (int i = 0; i < 2; ++i) {
        const Tensors batches{input_of(0), input_of(1)};
        numbers.push_back(model.pipeline.step(batches, batches, [&](const auto& output, const auto& target) {
          return scaler.scale(square_sum(output + torch::ones({}, torch::requires_grad()), target));
        }));
        scaler.unscale_(model.sharded);
        numbers.push_back(model.sharded.clip_grad_norm_(0.1));
        numbers.push_back(scaler.step(optimizer));
        scaler.update();
        optimizer.zero_grad();
      }
      return numbers;
    });
  }
}

// The first block's copy gets the gradient of the others.
TEST(ShardedPrograms, ACopyThatTheFirstBlockDoesNotUse) {
  FormCase form = tied_stages();
  form.blocks[0].forward = [](torch::nn::Module&, const Tensors& in) -> Tensors { return {in[0] * 2}; };
  for (const Strategy strategy : kManyStrategies) {
    expect_alike(form,
                 [](ShardedPipeline& model) {
                   AdamW optimizer(model.sharded, {.lr = 1e-2});
                   std::vector<double> numbers;
                   for (int i = 0; i < 2; ++i) {
                     numbers.push_back(model.step());
                     numbers.push_back(model.sharded.clip_grad_norm_(0.1));
                     optimizer.step();
                     optimizer.zero_grad();
                   }
                   return numbers;
                 },
                 {.options = {.strategy = strategy}});
  }
}

TEST(ShardedPrograms, ACopyThatTheLastBlockDoesNotUseIsAnError) {
  FormCase form = tied_stages();
  form.blocks[3].forward = [](torch::nn::Module&, const Tensors& in) -> Tensors { return {in[0] * 2}; };
  const auto result = fsdp::testing::run_ranks_to_end(
      2,
      [&](World& world) {
        ShardedPipeline model(form, world, world.split(world.rank()));
        model.step();
        model.sharded.clip_grad_norm_(1);
      },
      fsdp::testing::test_options());
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("the tied parameter d.bias of a sharded stage has a gradient in another block"));
}

TEST(ShardedPrograms, Muon) {
  expect_alike(tied_stages(), [](ShardedPipeline& model) {
    fsdp::Muon optimizer(model.sharded, {.lr = 1e-2});
    std::vector<double> numbers;
    for (int i = 0; i < 3; ++i) {
      numbers.push_back(model.step());
      optimizer.step();
      optimizer.zero_grad();
    }
    return numbers;
  });
}

// Gradients of tied parameters are complete only after all backwards.
TEST(ShardedPrograms, StepsInTheBackwardAreAnError) {
  run_ranks(2, [](World& world) {
    ShardedPipeline model(tied_stages(), world, world.split(world.rank()));
    AdamW optimizer(model.sharded, {.lr = 1e-2});
    {
      auto scope = optimizer.step_in_backward();
      EXPECT_THAT(message_of([&] { model.step(); }), HasSubstr("found a step in a scope of step_in_backward()"));
    }
    model.step();
    optimizer.step();
  });
}

// The whole pipeline deferred, then sharded: as one that is made at once. So is the generator.
TEST(ShardedPrograms, DeferredPipelines) {
  run_ranks(2, [](World& world) {
    World alone = world.split(world.rank());
    torch::Tensor states[2];
    std::vector<double> losses[2];
    for (const bool deferred : {false, true}) {
      torch::manual_seed(1);
      const auto make = [&] { return Pipeline(tied_stages().blocks, world); };
      Pipeline pipeline = deferred ? deferred_init(make) : make();
      ShardedModel sharded = shard(pipeline.stage(), alone);
      states[deferred] = at::detail::getDefaultCPUGenerator().get_state();
      AdamW optimizer(sharded, {.lr = 1e-2});
      for (int i = 0; i < 2; ++i) {
        const Tensors batches{input_of(1), input_of(2), input_of(3)};
        losses[deferred].push_back(pipeline.step(batches, batches, square_sum));
        optimizer.step();
        optimizer.zero_grad();
      }
    }
    EXPECT_EQ(losses[0], losses[1]);
    EXPECT_TRUE(torch::equal(states[0], states[1]));
  });
}

// Data ranks that have other numbers of micro-batches: an error that names the rank, and no hang.
TEST(ShardedPrograms, UnequalNumbersOfMicroBatches) {
  const auto result = fsdp::testing::run_ranks_to_end(
      4,
      [](World& world) {
        const Mesh mesh(world, {{"pipeline", 2}, {"data", 2}});
        ShardedPipeline model(four_layers({}), mesh["pipeline"], mesh["data"]);
        AdamW optimizer(model.sharded, {.lr = 1e-2});
        const Tensors batches(2 + mesh.coordinate("data"), input_of(1));
        model.pipeline.step(batches, batches, square_sum);
        optimizer.step();
      },
      fsdp::testing::test_options());
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("Every rank must run the same part of the model"));
}

// The model keeps its stages' ties and norms until its own end.
TEST(ShardedPrograms, StepAfterTheirPipelineIsGone) {
  for (const bool clips : {false, true}) {
    expect_alike(tied_stages(), [&](ShardedPipeline& model) {
      AdamW optimizer(model.sharded, {.lr = 1e-2});
      std::vector<double> numbers;
      numbers.push_back(model.step());
      optimizer.step();
      optimizer.zero_grad();
      numbers.push_back(model.step());
      { const Pipeline gone = std::move(model.pipeline); }
      if (clips) numbers.push_back(model.sharded.clip_grad_norm_(0.1));
      optimizer.step();
      return numbers;
    });
  }
}

TEST(ShardedPrograms, NoSyncWithTiesIsAnError) {
  run_ranks(4, [](World& world) {
    const Mesh mesh(world, {{"pipeline", 2}, {"data", 2}});
    ShardedPipeline model(tied_stages(), mesh["pipeline"], mesh["data"]);
    {
      const auto local = model.sharded.no_sync();
      EXPECT_THAT(message_of([&] { model.step(); }), HasSubstr("found a step in a scope of no_sync()"));
    }
    model.step();
  });
  // One rank has nothing to leave out.
  run_ranks(2, [](World& world) {
    ShardedPipeline model(tied_stages(), world, world.split(world.rank()));
    const auto local = model.sharded.no_sync();
    model.step();
  });
}

// One process that runs all micro-batches of all calls, in rounds over the data ranks.
TEST(ShardedPrograms, SeveralStepsWithTiesHaveTheBitsOfOneProcess) {
  constexpr int kCalls = 3, kBatches = 2, kData = 2;
  const auto batch_of = [](int call, int number, int data_rank) {
    return input_of(call * 7 + number * kData + data_rank);
  };
  for (const Strategy strategy : kManyStrategies) {
    run_ranks(4, [&](World& world) {
      const Mesh mesh(world, {{"pipeline", 2}, {"data", kData}});
      ShardedPipeline found(tied_stages(), mesh["pipeline"], mesh["data"], {.strategy = strategy});
      ShardedPipeline alone(tied_stages(), world.split(world.rank()), world.split(world.rank()));
      alone.sharded.set_gradient_divisor(kData);
      AdamW optimizer(found.sharded, {.lr = 1e-2}), expected_optimizer(alone.sharded, {.lr = 1e-2});
      const auto share_of_loss = [](const torch::Tensor& output, const torch::Tensor& target) {
        return square_sum(output, target) / kBatches;
      };
      for (int step = 0; step < 2; ++step) {
        for (int call = 0; call < kCalls; ++call) {
          Tensors batches;
          for (int i = 0; i < kBatches; ++i) batches.push_back(batch_of(call, i, mesh.coordinate("data")));
          found.pipeline.step(batches, batches, square_sum);
          for (int i = 0; i < kBatches; ++i) {
            for (int rank = 0; rank < kData; ++rank) {
              const torch::Tensor batch = batch_of(call, i, rank);
              alone.pipeline.step({batch}, {batch}, share_of_loss);
            }
          }
        }
        EXPECT_EQ(found.sharded.clip_grad_norm_(0.3), alone.sharded.clip_grad_norm_(0.3));
        optimizer.step();
        optimizer.zero_grad();
        expected_optimizer.step();
        expected_optimizer.zero_grad();
      }
      const auto expected = alone.sharded.full_state();
      for (const auto& [name, weight] : found.sharded.full_state()) {
        const auto same = std::ranges::find(expected, name, [](const auto& one) { return one.first; });
        ASSERT_NE(same, expected.end());
        EXPECT_TRUE(torch::equal(weight, same->second)) << name;
      }
    });
  }
}

// As by the sharded model itself: they are the program's own, and the norm does not count them.
TEST(ShardedPrograms, IgnoredParametersAreNotClipped) {
  const auto program = [](ShardedPipeline& model) {
    AdamW optimizer(model.sharded, {.lr = 1e-2});
    std::vector<double> numbers;
    for (int i = 0; i < 2; ++i) {
      numbers.push_back(model.step());
      std::map<std::string, torch::Tensor> before;
      for (const auto& one : model.pipeline.stage().named_parameters()) {
        if (one.key().ends_with("bias")) before[one.key()] = one.value().grad().clone();
      }
      EXPECT_FALSE(before.empty());
      numbers.push_back(i == 0 ? model.pipeline.clip_grad_norm_(1e-3) : model.sharded.clip_grad_norm_(1e-3));
      EXPECT_GT(numbers.back(), 1e-3);
      for (auto& one : model.pipeline.stage().named_parameters()) {
        if (!before.contains(one.key())) continue;
        EXPECT_TRUE(torch::equal(one.value().grad(), before[one.key()])) << one.key();
        one.value().mutable_grad().reset();
      }
      optimizer.step();
      optimizer.zero_grad();
    }
    return numbers;
  };
  expect_alike(four_layers({}), program, {.options = {.ignored = {"*.bias"}}});
}

TEST(ShardedPrograms, OtherFirstValuesOfACopyAreAnError) {
  run_ranks(4, [](World& world) {
    const Mesh mesh(world, {{"pipeline", 2}, {"data", 2}});
    ShardedPipeline model(tied_stages(), mesh["pipeline"], mesh["data"]);
    for (const ShardedParameter& parameter : model.sharded.parameters()) {
      const torch::NoGradGuard no_grad;
      torch::Tensor piece = parameter.piece;  // of one of the ranks alone
      if (parameter.name == "d.bias") piece.add_(1e-6);
    }
    EXPECT_THAT(message_of([&] { model.step(); }),
                HasSubstr("a.bias and d.bias are copies of one parameter, and have other values"));
  });
}

// Files and second runs in every stage, compared with one stage without any.
TEST(ShardedPrograms, OffloadAndRecomputation) {
  const fsdp::testing::ScratchDirectory scratch;
  FormCase form = tied_stages();
  for (PipelineBlock& block : form.blocks) {
    block.forward = [](torch::nn::Module& module, const Tensors& in) -> Tensors {
      auto& layer = *module.as<torch::nn::LinearImpl>();
      const auto run = [&layer](const torch::Tensor& x) {
        return torch::dropout(layer.forward(x).tanh(), 0.2, /*train=*/true).sigmoid();
      };
      return {activation_checkpoint(run, in[0])};
    };
  }
  FormCase kept = tied_stages();
  for (PipelineBlock& block : kept.blocks) {
    block.forward = [](torch::nn::Module& module, const Tensors& in) -> Tensors {
      return {torch::dropout(module.as<torch::nn::LinearImpl>()->forward(in[0]).tanh(), 0.2, /*train=*/true).sigmoid()};
    };
  }
  const auto program = [](ShardedPipeline& model) {
    AdamW optimizer(model.sharded, {.lr = 1e-2});
    std::vector<double> numbers;
    for (int i = 0; i < 3; ++i) {
      numbers.push_back(model.step());
      numbers.push_back(model.sharded.clip_grad_norm_(0.3));
      optimizer.step();
      optimizer.zero_grad();
    }
    return numbers;
  };
  using enum PipelineSchedule;
  const std::vector<std::pair<Options, PipelineOptions>> cases{
      {{.offload_directory = scratch.path()}, {.schedule = ZeroBubble, .gathers = GatherEvery::Step}},
      {{.offload_directory = scratch.path(), .offload = Offload::Optimizer}, {.schedule = OneForwardOneBackward}},
      {{.offload_directory = scratch.path(),
        .offload = Offload::Nothing,
        .offload_activations = true,
        .offload_activations_from = 0},
       {.schedule = Interleaved, .stages_per_rank = 2}},
      {{.offload_directory = scratch.path(), .offload_activations = true, .offload_activations_from = 0},
       {.schedule = ZeroBubble}},
  };
  for (const auto& [options, pipeline] : cases) {
    for (const FormCase& one : {form, kept}) {
      expect_alike(one, program, {.options = options, .pipeline = pipeline, .plain = Options{}});
    }
  }
  // The second runs have the first runs' bits.
  run_ranks(1, [&](World& world) {
    std::vector<double> numbers[2];
    for (const bool again : {false, true}) {
      ShardedPipeline model(again ? form : kept, world, world);
      numbers[again] = program(model);
    }
    EXPECT_EQ(numbers[0], numbers[1]);
  });
}

}  // namespace
}  // namespace fsdp
