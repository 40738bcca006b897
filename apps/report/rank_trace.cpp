#include "report/rank_trace.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace trainer {

namespace {

using TraceJson = nlohmann::ordered_json;

constexpr std::string_view kInFiles = " in files";

int64_t from_microseconds(const TraceJson& microseconds) {
  return static_cast<int64_t>(std::llround(1000 * microseconds.get<double>()));
}

void read_event(const TraceJson& event, RankTrace& trace) {
  trace.rank = event.at("pid").get<int>();
  const std::string phase = event.at("ph");
  if (phase == "X") {
    const int64_t begin = from_microseconds(event.at("ts"));
    trace.spans.push_back({.kind = event.at("cat"),
                           .name = event.at("name"),
                           .begin = begin,
                           .end = begin + from_microseconds(event.at("dur"))});
  } else if (phase == "C" && event.at("name") == "memory") {
    TraceMemory memory{.time = from_microseconds(event.at("ts"))};
    for (const auto& [part, bytes] : event.at("args").items()) memory.bytes.emplace_back(part, bytes.get<int64_t>());
    trace.memory.push_back(std::move(memory));
  }
}

}  // namespace

int64_t TraceMemory::total() const {
  int64_t sum = 0, in_files = 0;
  for (const auto& [part, count] : bytes) (part.ends_with(kInFiles) ? in_files : sum) += count;
  return sum - in_files;
}

std::vector<TraceSpan> RankTrace::of_kind(std::string_view kind) const {
  std::vector<TraceSpan> found;
  for (const TraceSpan& span : spans) {
    if (span.kind == kind) found.push_back(span);
  }
  return found;
}

RankTrace read_rank_trace(std::string_view events) try {
  RankTrace trace;
  for (const TraceJson& event : TraceJson::parse(events)) read_event(event, trace);
  return trace;
} catch (const nlohmann::json::exception& error) {
  throw fsdp::Error(fmt::format("a trace cannot be read: {}", error.what()));
}

}  // namespace trainer
