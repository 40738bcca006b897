// The timeline of a pipeline: actions, waits for other stages, and idle times of each rank.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "pipeline/sharded_pipeline.h"
#include "stages/schedules.h"
#include "stages/stage_schedule.h"
#include "stages/timing.h"
#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;
using testing_models::four_layers;
using testing_models::input_of;
using testing_models::ShardedPipeline;
using testing_models::square_sum;
using enum PipelineSchedule;
using Json = nlohmann::json;

// A file's spans, by the titles of their rows, in the order of their begins.
std::map<std::string, std::vector<Json>> rows_of(const std::filesystem::path& file, int rank) {
  std::ifstream in(file);
  const Json events = Json::parse(in);
  std::map<int, std::string> titles;
  for (const Json& event : events) {
    EXPECT_EQ(event["pid"], rank);
    if (event["name"] == "thread_name") titles[event["tid"]] = event["args"]["name"];
  }
  std::map<std::string, std::vector<Json>> rows;
  for (const Json& event : events) {
    if (event["ph"] == "X") rows[titles.at(event["tid"])].push_back(event);
  }
  return rows;
}

std::vector<std::string> names_of(const std::vector<Json>& row) {
  std::vector<std::string> names;
  for (const Json& event : row) names.push_back(event["name"]);
  return names;
}

// The rank's line of the schedule.
std::vector<std::string> actions_of(const std::string& schedule, int rank) {
  std::vector<std::string> actions;
  const stages::StageSchedule read = stages::read_csv(schedule);
  for (const stages::StageAction& action : read.ranks.at(rank)) actions.push_back(to_string(action));
  return actions;
}

double microseconds_of(const std::vector<Json>& row) {
  double sum = 0;
  for (const Json& event : row) sum += event["dur"].get<double>();
  return sum;
}

struct TracedSchedule {
  PipelineSchedule schedule;
  int stages_per_rank = 1;

  friend void PrintTo(const TracedSchedule& one, std::ostream* out) { *out << static_cast<int>(one.schedule); }
};

class PipelineTraces : public ::testing::TestWithParam<TracedSchedule> {};

TEST_P(PipelineTraces, HaveTheActionsOfTheScheduleInOrder) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    torch::manual_seed(1);
    Pipeline pipeline(four_layers({}).blocks, world,
                      {.schedule = GetParam().schedule, .stages_per_rank = GetParam().stages_per_rank});
    const Tensors batches{input_of(1), input_of(2), input_of(3)};
    pipeline.step(batches, batches, square_sum);
    auto trace = pipeline.trace();
    pipeline.step(batches, batches, square_sum);
    const std::filesystem::path file = trace.write(scratch.path() / "step.json");
    EXPECT_EQ(file.filename(), fmt::format("step.rank{}.json", world.rank()));
    auto rows = rows_of(file, world.rank());
    const std::vector<std::string> actions = actions_of(pipeline.report().schedule, world.rank());
    EXPECT_EQ(names_of(rows["pipeline"]), actions);
    // Each wait is that for a message that the schedule receives; some have come before.
    EXPECT_THAT(names_of(rows["pipeline waits"]), IsSubsetOf(actions));
    for (const std::string& wait : names_of(rows["pipeline waits"])) EXPECT_THAT(wait, HasSubstr("RECV_"));
    EXPECT_EQ(rows["pipeline waits"].size(), std::ranges::count_if(actions, [](const std::string& action) {
                return action.find("RECV") != std::string::npos;
              }));
  });
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, PipelineTraces,
    fsdp::testing::drawn<TracedSchedule>({{OneForwardOneBackward}, {Interleaved, 2}},
                                         {{OneAtATime, 2}, {AllForwardAllBackward, 2}, {ZeroBubble, 2}}),
    [](const auto& info) { return ::testing::PrintToString(info.param); });

TEST(PipelineTrace, SaysStagePassAndMicroBatch) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    Pipeline pipeline(four_layers({}).blocks, world, {.schedule = ZeroBubble, .stages_per_rank = 2});
    auto trace = pipeline.trace();
    pipeline.step({input_of(1), input_of(2)}, {input_of(1), input_of(2)}, square_sum);
    std::map<std::string, Json> facts;
    const std::filesystem::path file = trace.write(scratch.path() / "step.json");
    EXPECT_EQ(file.filename(), "step.json");
    auto rows = rows_of(file, 0);
    for (const Json& event : rows["pipeline"]) facts[event["name"]] = event["args"];
    EXPECT_EQ(facts.at("1F0"), Json({{"stage", 1}, {"pass", "forward"}, {"micro_batch", 0}}));
    EXPECT_EQ(facts.at("0I1"), Json({{"stage", 0}, {"pass", "input gradient"}, {"micro_batch", 1}}));
    EXPECT_EQ(facts.at("1W0"), Json({{"stage", 1}, {"pass", "weight gradient"}, {"micro_batch", 0}}));
  });
}

// The shares of the schedule with the passes of the trace, also after a forward.
TEST(PipelineTrace, ShowsThePassesOfTheIdleShares) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    Pipeline pipeline(four_layers({}).blocks, world, {.schedule = ZeroBubble});
    EXPECT_THAT(fsdp::testing::message_of<Error>([&] { pipeline.idle_share_of_passes(); }), HasSubstr("before a step"));
    const Tensors batches(4, input_of(2));
    auto trace = pipeline.trace();
    pipeline.step(batches, batches, square_sum);
    auto rows = rows_of(trace.write(scratch.path() / "step.json"), world.rank());
    std::vector<double> own, all;
    torch::Tensor by_kind = torch::zeros({3}, torch::kFloat64);
    for (const Json& event : rows["pipeline"]) {
      const std::string name = event["name"];
      if (name.find('_') != std::string::npos) continue;
      own.push_back(event["dur"].get<double>());
      by_kind[static_cast<int64_t>(std::string("FIW").find(name[1]))] += own.back();
    }
    world.all_reduce_(by_kind);
    const stages::StageTimes times{by_kind[0].item<double>(), by_kind[1].item<double>(), by_kind[2].item<double>()};
    EXPECT_NEAR(pipeline.report().idle_share_formula, stages::idle_share_formula("ZeroBubble", 2, 1, 4, times), 1e-3);
    for (const torch::Tensor& of_rank : world.all_gather(torch::tensor(own, torch::kFloat64)))
      for (int64_t i = 0; i < of_rank.numel(); ++i) all.push_back(of_rank[i].item<double>());
    const stages::StageSchedule schedule = stages::read_csv(pipeline.report().schedule);
    const double expected = stages::timing_of_passes(schedule, all).idle_share;
    EXPECT_NEAR(pipeline.idle_share_of_passes(), expected, 1e-3);  // spans are rounded
    pipeline.forward(batches);
    EXPECT_NEAR(pipeline.idle_share_of_passes(), expected, 1e-3);
  });
}

// Passes and idle spans together are the step, and the report's share is that of all ranks.
TEST(PipelineTrace, ShowsTheIdleShareOfTheReport) {
  const ScratchDirectory scratch;
  run_ranks(3, [&](World& world) {
    Pipeline pipeline(four_layers({}).blocks, world);
    const Tensors batches(4, input_of(2));
    pipeline.step(batches, batches, square_sum);
    auto trace = pipeline.trace();
    pipeline.step(batches, batches, square_sum);
    auto rows = rows_of(trace.write(scratch.path() / "step.json"), world.rank());
    double passes = 0;
    for (const Json& event : rows["pipeline"]) {
      const std::string name = event["name"];
      if (name.find('_') == std::string::npos) passes += event["dur"].get<double>();
    }
    const double idle = microseconds_of(rows["pipeline idle"]);
    const torch::Tensor own = torch::tensor({passes, passes + idle}, torch::kFloat64);
    double busy = 0, longest = 0;
    for (const torch::Tensor& one : world.all_gather(own)) {
      busy += one[0].item<double>();
      longest = std::max(longest, one[1].item<double>());
    }
    EXPECT_NEAR(longest, 1e6 * pipeline.report().step_seconds, 1);
    EXPECT_NEAR(1 - busy / (3 * longest), pipeline.report().idle_share, 1e-3);
    EXPECT_GE(idle, microseconds_of(rows["pipeline waits"]) - 1) << "a rank that waits is idle";
  });
}

TEST(PipelineTrace, HasTheGathersAndTheShardedModelsOfItsStages) {
  const ScratchDirectory scratch;
  run_ranks(fsdp::testing::Job{4, "gloo"}, [&](World& world) {
    const Mesh mesh(world, {{"pipeline", 2}, {"data", 2}});
    ShardedPipeline model(four_layers({}), mesh["pipeline"], mesh["data"], {.units = units_of<torch::nn::LinearImpl>()},
                          {.gathers = GatherEvery::Step});
    model.step();
    auto trace = model.pipeline.trace();
    EXPECT_THAT(message_of([&] { model.sharded.trace(); }), HasSubstr("the model is traced already"));
    EXPECT_THAT(message_of([&] { model.pipeline.trace(); }), HasSubstr("the pipeline is traced already"));
    model.step();
    const std::filesystem::path file = trace.write(scratch.path() / "step.json");
    EXPECT_EQ(file.filename(), fmt::format("step.rank{}.json", world.rank())) << "by its number in the job";
    auto rows = rows_of(file, world.rank());
    const std::string schedule = model.pipeline.report().schedule;
    EXPECT_THAT(schedule, HasSubstr("UNSHARD"));
    EXPECT_EQ(names_of(rows["pipeline"]), actions_of(schedule, mesh.coordinate("pipeline")));
    EXPECT_THAT(names_of(rows["gather"]), Contains(mesh.coordinate("pipeline") == 0 ? "gather a" : "gather c"));
    EXPECT_THAT(names_of(rows["reduce"]), Contains(mesh.coordinate("pipeline") == 0 ? "reduce b" : "reduce d"));
  });
}

// A model that cannot be traced leaves no trace of the pipeline behind.
TEST(PipelineTrace, BeginsWholeOrNotAtAll) {
  run_ranks(1, [](World& world) {
    ShardedPipeline model(four_layers({}), world, world);
    {
      auto other = model.sharded.trace();
      EXPECT_THAT(message_of([&] { model.pipeline.trace(); }), HasSubstr("the model is traced already"));
    }
    auto trace = model.pipeline.trace();
  });
}

// It holds the spans of a pipeline that is gone.
TEST(PipelineTrace, MayOutliveThePipeline) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    auto pipeline = std::make_unique<Pipeline>(four_layers({}).blocks, world);
    auto trace = pipeline->trace();
    pipeline->step({input_of(1)}, {input_of(1)}, square_sum);
    pipeline.reset();
    EXPECT_EQ(names_of(rows_of(trace.write(scratch.path() / "step.json"), 0)["pipeline"]),
              (std::vector<std::string>{"0F0", "0B0"}));
  });
}

}  // namespace
}  // namespace fsdp
