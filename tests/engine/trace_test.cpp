// The contents of a trace of a model's steps, on every rank.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/model.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

using fsdp::testing::Job;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using Json = nlohmann::json;

constexpr int64_t kBlocks = 3;

struct Event {
  std::string name;
  double begin, end;  // microseconds
};

// A file's spans, by the titles of their rows.
struct Read {
  explicit Read(const std::filesystem::path& file) {
    std::ifstream in(file);
    const Json events = Json::parse(in);
    std::map<int, std::string> titles;
    for (const Json& event : events) {
      processes.insert(event["pid"].get<int>());
      if (event["name"] == "process_name") process = event["args"]["name"];
      if (event["name"] == "thread_name") titles[event["tid"]] = event["args"]["name"];
    }
    for (const Json& event : events) {
      if (event["ph"] != "X") continue;
      const double begin = event["ts"], length = event["dur"];
      rows[titles.at(event["tid"])].push_back({event["name"], begin, begin + length});
    }
  }

  // The names in every row whose title begins so.
  std::vector<std::string> names(const std::string& title) const {
    std::vector<std::string> names;
    for (const auto& [row, events] : rows) {
      if (!row.starts_with(title)) continue;
      for (const Event& event : events) names.push_back(event.name);
    }
    return names;
  }

  double microseconds(const std::string& title) const {
    double sum = 0;
    for (const auto& [row, events] : rows) {
      for (const Event& event : events) sum += row.starts_with(title) ? event.end - event.begin : 0;
    }
    return sum;
  }

  std::string process;
  std::set<int> processes;
  std::map<std::string, std::vector<Event>> rows;
};

void step(const testing_models::TestModel& model, AdamW& optimizer, int64_t micro_batch) {
  model.loss(micro_batch).backward();
  optimizer.step();
  optimizer.zero_grad();
}

void expect_no_overlap(const Read& trace) {
  constexpr double kRounding = 1e-3;  // of the sum of two doubles that are rounded to nanoseconds
  for (const auto& [row, events] : trace.rows) {
    for (size_t i = 1; i < events.size(); ++i) {
      EXPECT_GE(events[i].begin, events[i - 1].end - kRounding) << row << ": " << events[i].name;
    }
  }
}

// Two models of two ranks each: no rank writes another's file.
TEST(TraceOnAMesh, NamesTheRankAndItsPlace) {
  const ScratchDirectory scratch;
  run_ranks(4, [&](World& world) {
    const Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
    auto model = testing_models::make_gpt(kBlocks);
    auto sharded = shard(*model.module, mesh, "data");
    AdamW optimizer(sharded);
    auto trace = sharded.trace();
    step(model, optimizer, world.rank());
    const std::filesystem::path file = trace.write(scratch.path() / "step.json");
    EXPECT_EQ(file.filename(), fmt::format("step.rank{}.json", world.rank()));
    const Read read(file);
    EXPECT_EQ(read.process,
              fmt::format("rank {} (data {}, tensor {})", world.rank(), world.rank() / 2, world.rank() % 2));
    EXPECT_EQ(read.processes, std::set{world.rank()});
  });
}

class TraceOfAModel : public ::testing::TestWithParam<Job> {};

TEST_P(TraceOfAModel, HasEveryUnitEveryRowAndWhatWasCounted) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    auto model = testing_models::make_gpt(kBlocks);
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded);
    step(model, optimizer, world.rank());
    const CommunicationReport before = sharded.communication();
    auto trace = sharded.trace();
    for (int i = 0; i < 2; ++i) step(model, optimizer, world.rank());
    const std::filesystem::path file = trace.write(scratch.path() / "step.json");
    const CommunicationReport after = sharded.communication();

    EXPECT_EQ(file.filename(), world.size() == 1 ? "step.json" : fmt::format("step.rank{}.json", world.rank()));
    const Read read(file);
    EXPECT_EQ(read.process, fmt::format("rank {}", world.rank()));
    EXPECT_EQ(read.processes, std::set<int>{world.rank()});
    expect_no_overlap(read);
    const double waited = 1e6 * (after.wait_seconds - before.wait_seconds);
    EXPECT_NEAR(read.microseconds("waits"), waited, 1e-3 * waited + 1);  // each span is rounded to nanoseconds
    EXPECT_EQ(read.names("gather").size(), after.gathers - before.gathers);
    EXPECT_EQ(read.names("reduce").size(), after.reductions - before.reductions);
    for (const auto& unit : sharded.model().units()) {
      for (const char* row : {"forward", "backward", "reduce"}) {
        EXPECT_THAT(read.names(row), Contains(fmt::format("{} {}", row, unit->name)));
      }
      if (world.size() == 1) continue;
      EXPECT_THAT(read.names("gather"), Contains("gather " + unit->name));
      EXPECT_THAT(read.names("waits"), IsSupersetOf({"gather " + unit->name, "reduce " + unit->name}));
    }
    if (world.size() > 1) {
      EXPECT_THAT(read.names("waits"), IsSupersetOf({"agreement of all ranks", "readers of the shards"}));
    }
    std::vector<std::string> updates;
    for (int i = 0; i < 2; ++i) {
      for (const auto& unit : sharded.model().units()) {
        updates.insert(updates.end(), {"update " + unit->name, "publish " + unit->name});
      }
    }
    EXPECT_THAT(read.names("optimizer"), ::testing::ElementsAreArray(updates));
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, TraceOfAModel, ::testing::Values(Job{1, "auto"}, Job{2, "shm"}, Job{2, "gloo"}),
                         [](const auto& info) { return info.param.backend + std::to_string(info.param.ranks); });

// A unit's span begins where its gather ends, in whichever row that is.
TEST(TraceOfRanks, PutsWaitsBetweenComputations) {
  const ScratchDirectory scratch;
  run_ranks(Job{2, "gloo"}, [&](World& world) {
    auto model = testing_models::make_gpt(kBlocks);
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded);
    auto trace = sharded.trace();
    step(model, optimizer, world.rank());  // not planned: each gather is waited for at once
    const Read read(trace.write(scratch.path() / "first"));
    for (const Event& wait : read.rows.at("waits")) {
      if (!wait.name.starts_with("gather")) continue;
      for (const char* row : {"forward", "backward"}) {
        for (const Event& computation : read.rows.at(row)) {
          EXPECT_TRUE(computation.end <= wait.begin || computation.begin >= wait.end)
              << wait.name << " in " << computation.name;
        }
      }
    }
  });
}

TEST(TraceOfRanks, HasWhatAFollowerGathersAndReduces) {
  const ScratchDirectory scratch;
  run_ranks(Job{2, "gloo"}, [&](World& world) {
    auto model = testing_models::make_gpt(kBlocks);
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded);
    auto trace = sharded.trace();
    const bool here = world.rank() == 0;
    sharded.any_rank_has_batch(here);
    here ? model.loss(0).backward() : sharded.backward_without_batch();
    optimizer.step();
    const Read read(trace.write(scratch.path() / "uneven"));
    EXPECT_GT(sharded.communication().gathers, 0);
    EXPECT_EQ(read.names("gather").size(), sharded.communication().gathers);
    EXPECT_EQ(read.names("reduce").size(), sharded.communication().reductions);
    expect_no_overlap(read);
  });
}

// The most of a step is that of the report, and the last value is what is there.
TEST(TraceOfMemory, IsThatOfTheReport) {
  run_ranks(2, [](World& world) {
    auto model = testing_models::make_gpt(kBlocks);
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded);
    step(model, optimizer, world.rank());
    int64_t calls = 0;
    auto trace = sharded.trace({.tensor_bytes = [&calls] { return ++calls * (int64_t{1} << 40); }});
    sharded.reset_peak_memory();
    step(model, optimizer, world.rank());
    const MemoryReport report = sharded.memory();
    int64_t most = 0, counted = 0;
    Json last;
    for (const Json& event : Json::parse(trace.events())) {
      if (event["ph"] != "C") continue;
      last = event["args"];
      ++counted;
      most = std::max(most, last["activations"].get<int64_t>());
      EXPECT_EQ(last["other tensors"].get<int64_t>() + last["activations"].get<int64_t>(),
                (counted + 1) * (int64_t{1} << 40));
    }
    EXPECT_GT(counted, 2 * kBlocks);
    EXPECT_GT(report.peak_activation_bytes, 0);
    EXPECT_EQ(most, report.peak_activation_bytes);
    EXPECT_EQ(last["parameters"], report.parameter_bytes);
    EXPECT_EQ(last["gradients"], report.gradient_bytes);
    EXPECT_EQ(last["optimizer"], report.optimizer_bytes);
    EXPECT_EQ(last["full parameters"], report.full_parameter_bytes);
    EXPECT_EQ(last["full gradients"], report.full_gradient_bytes);
  });
}

TEST(TraceScope, TakesSpansOfTheProgramAndShiftsAll) {
  run_ranks(1, [](World& world) {
    auto model = testing_models::make_gpt(1);
    auto sharded = shard(*model.module, world);
    auto trace = sharded.trace();
    using Time = std::chrono::steady_clock::time_point;
    const Time begin{std::chrono::microseconds(5)}, end{std::chrono::microseconds(9)};
    trace.add("part", begin, end);
    Json part;
    for (const Json& event : Json::parse(trace.events(std::chrono::microseconds(100)))) {
      if (event["name"] == "part") part = event;
    }
    ASSERT_FALSE(part.is_null());
    EXPECT_EQ(part["ts"], 105);
    EXPECT_EQ(part["dur"], 4);
    EXPECT_EQ(part["cat"], "program");
    EXPECT_THAT(message_of<Error>([&] { trace.add("late", begin, end); }), HasSubstr("has ended"));
    EXPECT_THAT(message_of<Error>([&] { trace.events(); }), HasSubstr("has ended"));
  });
}

TEST(TraceScope, IsOneAtATimeAndWrittenOnce) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    auto model = testing_models::make_gpt(1);
    auto sharded = shard(*model.module, world);
    auto trace = sharded.trace();
    EXPECT_THAT(message_of<Error>([&] { sharded.trace(); }), HasSubstr("traced already"));
    model.loss(0).backward();
    trace.write(scratch.path() / "one.json");
    EXPECT_THAT(message_of<Error>([&] { trace.write(scratch.path() / "one.json"); }), HasSubstr("has ended"));
    {
      auto dropped = sharded.trace();
      model.loss(0).backward();
    }
    auto next = sharded.trace();
    EXPECT_THAT(Read(next.write(scratch.path() / "none.json")).rows, IsEmpty());
  });
}

TEST(TraceScope, GoesOnAfterAFileThatCannotBeWritten) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    auto model = testing_models::make_gpt(1);
    auto sharded = shard(*model.module, world);
    auto trace = sharded.trace();
    model.loss(0).backward();
    const auto nowhere = scratch.path() / "missing" / "step.json";
    EXPECT_THAT(message_of<Error>([&] { trace.write(nowhere); }),
                AllOf(HasSubstr(nowhere.string()), HasSubstr("No such file or directory"), HasSubstr("folder")));
    EXPECT_THAT(Read(trace.write(scratch.path() / "step.json")).rows, Not(IsEmpty()));
  });
}

}  // namespace
}  // namespace fsdp
