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
