// Spans, and the JSON that shows them.
#include "engine/timeline.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "engine/recorder.h"
#include "engine/trace_events.h"

namespace fsdp::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Json = nlohmann::json;

const std::vector<std::string> kUnits = {"root", "blocks.0", "blocks.1 \"quoted\""};

TEST(Timeline, ComputationLastsUntilAnotherUnitIsTouched) {
  Timeline timeline;
  timeline.computes(Activity::Forward, 0, 0);
  timeline.computes(Activity::Forward, 0, 0);
  const int64_t touched = now();
  timeline.computes(Activity::Forward, 1, touched);
  timeline.computes_nothing();
  const std::vector<Span> spans = timeline.take();
  ASSERT_EQ(spans.size(), 2);
  EXPECT_EQ(spans[0].unit, 0);
  EXPECT_EQ(spans[0].end, touched);
  EXPECT_EQ(spans[1].unit, 1);
  EXPECT_GE(spans[1].begin, touched);
  EXPECT_GE(spans[1].end, spans[1].begin);
}

TEST(Timeline, LeavesOutWhatHasNotEndedOrBeganBefore) {
  Timeline timeline;
  timeline.ends(Activity::Gather, 0);
  timeline.begins(Activity::Gather, 1);
  EXPECT_THAT(timeline.take(), IsEmpty());
}

TEST(Recorder, CountsEveryWaitAndShowsItWhileTraced) {
  Recorder recorder(3);
  EXPECT_EQ(recorder.waits(Activity::WaitGather, 1, [] { return 7; }), 7);
  recorder.begin_trace();
  recorder.waits(Activity::WaitGather, 1, [] {});
  recorder.waits(Activity::WaitReaders, kNoUnit, [] {});
  EXPECT_ANY_THROW(recorder.waits(Activity::WaitReduce, 2, [] { throw 1; }));
  EXPECT_EQ(recorder.waited(Activity::WaitGather, 1).count, 2);
  EXPECT_EQ(recorder.waited(Activity::WaitGather, 2).count, 0);
  EXPECT_EQ(recorder.waited(Activity::WaitReduce, 2).count, 1);
  EXPECT_EQ(recorder.waited(Activity::WaitReaders).count, 1);
  EXPECT_EQ(recorder.end_trace().size(), 3);
  EXPECT_FALSE(recorder.traced());
}

TEST(TraceEvents, NameTheRankItsRowsAndEachSpan) {
  const Json events = Json::parse(trace_events(
      {{Activity::Forward, 1, 1500, 4000}, {Activity::WaitReduce, 2, 2000, 2001}, {Activity::Publish, kNoUnit, 5, 6}},
      kUnits, 3));
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
      {{Activity::Gather, 0, 0, 10}, {Activity::Gather, 1, 5, 15}, {Activity::Gather, 2, 10, 20}}, kUnits, 0));
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

}  // namespace
}  // namespace fsdp::engine
