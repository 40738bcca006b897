// The JSON that shows spans.
#include "report/trace_events.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

namespace fsdp::report {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::json;

const std::vector<std::string> kUnits = {"root", "blocks.0", "blocks.1 \"quoted\""};

TEST(TraceEvents, NameTheRankItsRowsAndEachSpan) {
  const Json events = Json::parse(trace_events(named_spans({{Activity::Forward, 1, 1500, 4000},
                                                            {Activity::WaitReduce, 2, 2000, 2001},
                                                            {Activity::Publish, kNoUnit, 5, 6}},
                                                           kUnits),
                                               3));
  std::vector<std::string> names, titles;
  for (const Json& event : events) {
    EXPECT_EQ(event["pid"], 3);
    if (event["ph"] == "X") names.push_back(event["name"]);
    if (event["name"] == "process_name" || event["name"] == "thread_name") titles.push_back(event["args"]["name"]);
    if (event["name"] == "forward blocks.0") {
      EXPECT_EQ(event["ts"], 1.5);
      EXPECT_EQ(event["dur"], 2.5);
    }
  }
  EXPECT_THAT(names, ElementsAre("publish", "forward blocks.0", "reduce blocks.1 \"quoted\""));
  EXPECT_THAT(titles, ElementsAre("rank 3", "forward", "optimizer", "waits"));
}

TEST(TraceEvents, PutWhatOverlapsOnRowsOfItsOwn) {
  const Json events = Json::parse(trace_events(
      named_spans({{Activity::Gather, 0, 0, 10}, {Activity::Gather, 1, 5, 15}, {Activity::Gather, 2, 10, 20}}, kUnits),
      0));
  std::map<int, std::string> titles;
  std::map<std::string, std::vector<std::string>> rows;
  for (const Json& event : events) {
    if (event["name"] == "thread_name") titles[event["tid"]] = event["args"]["name"];
  }
  for (const Json& event : events) {
    if (event["ph"] == "X") rows[titles.at(event["tid"])].push_back(event["name"]);
  }
  EXPECT_THAT(rows["gather"], ElementsAre("gather root", "gather blocks.1 \"quoted\""));
  EXPECT_THAT(rows["gather 2"], ElementsAre("gather blocks.0"));
}

TEST(TraceEvents, NestTheProgramsOwnSpans) {
  const Json events = Json::parse(trace_events({{.row = kProgram, .name = "update", .begin = 60, .end = 90},
                                                {.row = kProgram, .name = "step 1", .begin = 0, .end = 90},
                                                {.row = kProgram, .name = "passes", .begin = 0, .end = 60},
                                                {.row = kProgram, .name = "step 2", .begin = 95, .end = 99}},
                                               0));
  std::vector<std::string> names, titles;
  for (const Json& event : events) {
    if (event["ph"] == "X") names.push_back(event["name"]);
    if (event["name"] == "thread_name") titles.push_back(event["args"]["name"]);
  }
  EXPECT_THAT(names, ElementsAre("step 1", "passes", "update", "step 2"));
  EXPECT_THAT(titles, ElementsAre("program"));
}

TEST(TraceEvents, CountMemoryAndShiftAllTimes) {
  const MemorySample sample{
      .time = 1000, .parameters = 7, .in_files = 3, .activations = 20, .other_tensors = std::optional<int64_t>(25)};
  const Json events =
      Json::parse(trace_events({TracePart{.spans = {{.row = kProgram, .name = "step 1", .begin = 2000, .end = 3000}}},
                                TracePart{.memory = counted_bytes({sample, {.time = 4000}})},
                                TracePart{.memory = counted_bytes({{.time = 5000, .activations = 9}})}},
                               1, /*shift=*/-500));
  std::vector<Json> counted;
  for (const Json& event : events) {
    if (event["ph"] == "X") {
      EXPECT_EQ(event["ts"], 1.5);
      EXPECT_EQ(event["dur"], 1);
    }
    if (event["ph"] == "C") counted.push_back(event);
  }
  ASSERT_EQ(counted.size(), 3);
  EXPECT_EQ(counted[0]["name"], "memory");
  EXPECT_EQ(counted[0]["ts"], 0.5);
  EXPECT_EQ(counted[0]["args"], Json({{"parameters", 7},
                                      {"gradients", 0},
                                      {"optimizer", 0},
                                      {"full parameters", 0},
                                      {"full gradients", 0},
                                      {"activations", 20},
                                      {"other tensors", 5},
                                      {"state in files", 3}}));
  EXPECT_FALSE(counted[1]["args"].contains("other tensors")) << "they are not known";
  EXPECT_EQ(counted[2]["name"], "memory 2");
}

// Spans without length keep the order in which they were recorded.
TEST(TraceEvents, OfAPipelineHaveFactsAndTheirOrder) {
  const Json events = Json::parse(trace_events(
      {{.row = kPipeline, .name = "2SEND_F0", .begin = 7, .end = 7, .facts = {{"stage", 2}, {"pass", "send"}}},
       {.row = kPipeline, .name = "1F0", .begin = 7, .end = 7},
       {.row = kPipelineIdle, .name = "idle", .begin = 0, .end = 7}},
      1));
  std::vector<std::string> names;
  for (const Json& event : events) {
    if (event["ph"] == "X") names.push_back(event["name"]);
    if (event["name"] == "2SEND_F0") {
      EXPECT_EQ(event["args"], Json({{"stage", 2}, {"pass", "send"}}));
    }
  }
  EXPECT_THAT(names, ElementsAre("idle", "2SEND_F0", "1F0"));
}

}  // namespace
}  // namespace fsdp::report
