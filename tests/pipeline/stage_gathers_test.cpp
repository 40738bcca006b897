// Stages whose parameters are gathered once per step, by actions of the schedule.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "pipeline/sharded_pipeline.h"
#include "stages/validate.h"
#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_models::expect_alike;
using testing_models::FormCase;
using testing_models::four_layers;
using testing_models::input_of;
using testing_models::ShardedPipeline;
using testing_models::square_sum;
using testing_models::tied_stages;
using enum PipelineSchedule;

// Each layer is a unit.
Options unit_per_layer(Strategy strategy = Strategy::FullShard) {
  return {.strategy = strategy, .units = units_of<torch::nn::LinearImpl>()};
}

int count_in(const std::string& text, const std::string& word) {
  int count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

struct GatherCase {
  PipelineSchedule schedule = OneForwardOneBackward;
  int stages_per_rank = 1;
  std::string backend = "auto";
  bool tied = false;
  Strategy strategy = Strategy::FullShard;

  PipelineOptions options(GatherEvery gathers = GatherEvery::Step) const {
    return {.schedule = schedule, .stages_per_rank = stages_per_rank, .gathers = gathers};
  }
  FormCase form() const { return tied ? tied_stages() : four_layers({}); }
  friend void PrintTo(const GatherCase& one, std::ostream* out) {
    *out << static_cast<int>(one.schedule) << "x" << one.stages_per_rank << "_" << one.backend
         << (one.tied ? "_tied" : "") << "_" << static_cast<int>(one.strategy);
  }
};

class StageGathers : public ::testing::TestWithParam<GatherCase> {};

TEST_P(StageGathers, HaveTheSameBitsAroundEvaluationsAndSeveralSteps) {
  const auto program = [](ShardedPipeline& model) {
    AdamW optimizer(model.sharded, {.lr = 1e-2});
    std::vector<double> numbers;
    model.pipeline.forward({input_of(4), input_of(5)});
    for (int i = 0; i < 3; ++i) {
      numbers.push_back(model.step());
      if (i == 1) {
        model.pipeline.forward({input_of(4)});
        numbers.push_back(model.step());
      }
      numbers.push_back(model.sharded.clip_grad_norm_(0.3));
      optimizer.step();
      optimizer.zero_grad();
    }
    return numbers;
  };
  expect_alike(GetParam().form(), program,
               {.options = unit_per_layer(GetParam().strategy),
                .pipeline = GetParam().options(),
                .backend = GetParam().backend});
}

// Two layers and so two units per rank.
TEST_P(StageGathers, AreOnePerUnitAndStepAllForeseen) {
  run_ranks(fsdp::testing::Job{4, GetParam().backend}, [&](World& world) {
    const Mesh mesh(world, {{"pipeline", 2}, {"data", 2}});
    const auto counts = [&](GatherEvery every) {
      ShardedPipeline model(GetParam().form(), mesh["pipeline"], mesh["data"], unit_per_layer(GetParam().strategy),
                            GetParam().options(every));
      AdamW optimizer(model.sharded, {.lr = 1e-2});
      CommunicationReport report;
      constexpr int kSteps = 4;
      for (int i = 0; i < kSteps; ++i) {
        model.step();
        optimizer.step();
        optimizer.zero_grad();
      }
      report = model.sharded.communication();
      EXPECT_EQ(report.reductions, kSteps * 3 * 2) << "one per unit and micro-batch: the bits need it";
      if (every == GatherEvery::Step) {
        EXPECT_EQ(report.gathers, kSteps * 2);
        EXPECT_EQ(report.foreseen_gathers, report.gathers);
        model.pipeline.forward({input_of(1), input_of(2)});
        EXPECT_EQ(model.sharded.communication().gathers, kSteps * 2 + 2) << "an evaluation's";
      }
      return report.gathers;
    };
    EXPECT_GT(counts(GatherEvery::MicroBatch), counts(GatherEvery::Step));
  });
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, StageGathers,
    fsdp::testing::drawn<GatherCase>(
        {GatherCase{}, {.schedule = Interleaved, .stages_per_rank = 2, .backend = "gloo", .tied = true}},
        {{.backend = "gloo"},
         {.schedule = OneAtATime},
         {.schedule = AllForwardAllBackward, .stages_per_rank = 2, .backend = "gloo"},
         {.schedule = Interleaved, .stages_per_rank = 2, .backend = "gloo"},
         {.schedule = ZeroBubble, .backend = "gloo"},
         {.schedule = ZeroBubble, .stages_per_rank = 2, .tied = true},
         {.schedule = Interleaved, .stages_per_rank = 2, .backend = "gloo", .strategy = Strategy::ShardGradOp}}),
    [](const auto& info) { return ::testing::PrintToString(info.param); });

// Between ranks that copy: the buffers of a whole stage, in place of two units.
TEST(GatheredStages, TakeTheMemoryOfAllTheirUnits) {
  run_ranks(fsdp::testing::Job{2, "gloo"}, [](World& world) {
    const auto bytes = [&](GatherEvery every) {
      ShardedPipeline model(four_layers({}), world.split(world.rank()), world, unit_per_layer(), {.gathers = every});
      model.step();
      return model.sharded.memory().full_parameter_bytes;
    };
    EXPECT_EQ(bytes(GatherEvery::Step), 2 * bytes(GatherEvery::MicroBatch));
  });
}

TEST(GatheredStages, AreActionsOfTheSchedule) {
  run_ranks(4, [](World& world) {
    const Mesh mesh(world, {{"pipeline", 2}, {"data", 2}});
    const auto schedule = [&](GatherEvery every, bool sharded) {
      torch::manual_seed(1);
      Pipeline pipeline(four_layers({}).blocks, mesh["pipeline"],
                        {.schedule = Interleaved, .stages_per_rank = 2, .gathers = every});
      World data = mesh["data"];
      if (sharded) {
        const ShardedModel model = shard(pipeline.stage(), data);
        const Tensors batches{input_of(1), input_of(2)};
        pipeline.step(batches, batches, square_sum);
      } else {
        pipeline.step({input_of(1)}, {input_of(1)}, square_sum);
      }
      const std::string text = pipeline.report().schedule;
      EXPECT_NO_THROW(stages::validate(stages::read_csv(text))) << text;
      return text;
    };
    const std::string text = schedule(GatherEvery::Step, /*sharded=*/true);
    EXPECT_THAT(text, HasSubstr("0UNSHARD,0F0"));
    EXPECT_EQ(count_in(text, "UNSHARD"), 4);
    EXPECT_EQ(count_in(text, "RESHARD"), 4);
    EXPECT_THAT(schedule(GatherEvery::MicroBatch, /*sharded=*/true), Not(HasSubstr("SHARD")));
    EXPECT_THAT(schedule(GatherEvery::Step, /*sharded=*/false), Not(HasSubstr("SHARD")));
  });
}

TEST(GatheredStages, MayBeFrozen) {
  FormCase form = four_layers({});
  form.blocks[0].make = [make = form.blocks[0].make] {
    auto module = make();
    for (torch::Tensor& parameter : module->parameters()) parameter.requires_grad_(false);
    return module;
  };
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
               {.options = unit_per_layer(), .pipeline = {.gathers = GatherEvery::Step}, .backend = "gloo"});
}

TEST(GatheredStages, OfOtherRanksAreGatheredAlike) {
  run_ranks(2, [](World& world) {
    ShardedPipeline model(four_layers({}), world, world.split(world.rank()), {},
                          {.gathers = world.rank() == 0 ? GatherEvery::Step : GatherEvery::MicroBatch});
    EXPECT_THAT(message_of([&] { model.step(); }), HasSubstr("have other blocks, cuts or schedules"));
  });
}

// A scope of full parameters has them all.
TEST(GatheredStages, AreEvaluatedInAScopeOfFullParameters) {
  run_ranks(2, [](World& world) {
    ShardedPipeline model(four_layers({}), world.split(world.rank()), world, unit_per_layer(),
                          {.gathers = GatherEvery::Step});
    const torch::Tensor expected = model.pipeline.forward({input_of(1)}).at(0);
    auto scope = model.sharded.full_parameters();
    EXPECT_TRUE(torch::equal(model.pipeline.forward({input_of(1)}).at(0), expected));
    scope.close();
    EXPECT_TRUE(torch::equal(model.pipeline.forward({input_of(1)}).at(0), expected));
  });
}

TEST(GatheredStages, AreCountedInTheModelsSchedule) {
  run_ranks(fsdp::testing::Job{2, "gloo"}, [](World& world) {
    ShardedPipeline model(four_layers({}), world.split(world.rank()), world, unit_per_layer(),
                          {.gathers = GatherEvery::Step});
    AdamW optimizer(model.sharded, {.lr = 1e-2});
    for (int i = 0; i < 3; ++i) {
      model.step();
      optimizer.step();
      optimizer.zero_grad();
    }
    const std::string text = model.sharded.schedule();
    for (const char* fact : {" in 4 gathers, ", " in 12 reductions", "full at once: at most 4 units"}) {
      EXPECT_THAT(text, HasSubstr(fact));
    }
  });
}

// The values can be read, as by a last checkpoint, although the stage was full when the step broke off.
TEST(GatheredStages, AreReadableAfterAStepThatThrew) {
  for (const char* backend : {"auto", "gloo"}) {
    run_ranks(fsdp::testing::Job{2, backend}, [](World& world) {
      ShardedPipeline model(four_layers({}), world.split(world.rank()), world, unit_per_layer(),
                            {.gathers = GatherEvery::Step});
      const NamedTensors before = model.sharded.full_state();
      int losses = 0;
      const auto loss = [&](const torch::Tensor& output, const torch::Tensor& target) {
        if (++losses == 2) throw std::runtime_error("no loss");
        return square_sum(output, target);
      };
      const Tensors batches(3, input_of(1));
      EXPECT_THAT(message_of([&] { model.pipeline.step(batches, batches, loss); }), HasSubstr("no loss"));
      EXPECT_THAT(message_of([&] { model.step(); }), HasSubstr("an earlier step failed"));
      const NamedTensors after = model.sharded.full_state();
      for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(torch::equal(before[i].second, after[i].second));
    });
  }
}

TEST(GatheredStages, AreNamedWhereTheirGatherFails) {
  run_ranks(2, [](World& world) {
    torch::manual_seed(1);
    Pipeline pipeline = deferred_init(
        [&] { return Pipeline(four_layers({}).blocks, world.split(world.rank()), {.gathers = GatherEvery::Step}); });
    const ShardedModel sharded = shard(pipeline.stage(), world, {.initialise = false});
    EXPECT_THAT(message_of([&] { pipeline.forward({input_of(1)}); }),
                HasSubstr("stage 0 (blocks a to d), gather of its parameters: "));
  });
}

// A rank that shares a stage is killed while the stage is full.
TEST(GatheredStages, EndWithAnErrorWhereARankIsKilled) {
  for (const char* backend : {"auto", "gloo"}) {
    LaunchOptions options = fsdp::testing::patient_options();
    options.backend = backend;
    const auto result = fsdp::testing::run_ranks_to_end(
        4,
        [](World& world) {
          const Mesh mesh(world, {{"pipeline", 2}, {"data", 2}});
          FormCase form = four_layers({});
          int forwards = 0;
          form.blocks[3].forward = [&, inner = form.blocks[3].forward](auto& module, const Tensors& inputs) {
            if (world.rank() == 3 && ++forwards == 2) raise(SIGKILL);
            return inner(module, inputs);
          };
          ShardedPipeline model(form, mesh["pipeline"], mesh["data"], unit_per_layer(), {.gathers = GatherEvery::Step});
          model.step();
        },
        options);
    EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.output;
    EXPECT_THAT(result.output, HasSubstr("rank 3")) << backend;
  }
}

}  // namespace
}  // namespace fsdp
