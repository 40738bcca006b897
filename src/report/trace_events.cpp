#include "report/trace_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

#include "base/rank_names.h"

namespace fsdp::report {

namespace {

using Json = nlohmann::ordered_json;

struct Shown {
  const char* row;
  const char* name;
};

Shown shown_as(Activity activity) {
  switch (activity) {
    case Activity::Forward:
      return {"forward", "forward"};
    case Activity::Backward:
      return {"backward", "backward"};
    case Activity::Update:
      return {"optimizer", "update"};
    case Activity::Publish:
      return {"optimizer", "publish"};
    case Activity::Gather:
      return {"gather", "gather"};
    case Activity::Reduce:
      return {"reduce", "reduce"};
    case Activity::WaitGather:
      return {"waits", "gather"};
    case Activity::WaitReduce:
      return {"waits", "reduce"};
    case Activity::WaitReplicas:
      return {"waits", "replicas' sums"};
    case Activity::WaitReaders:
      return {"waits", "readers of the shards"};
    case Activity::WaitAgreement:
      return {"waits", "agreement of all ranks"};
    case Activity::WaitParts:
      return {"waits", "other parts of the model"};
  }
  return {};
}

// In the order in which they are shown; the rows of a kind are numbered from its first on, and 0 is no thread.
constexpr std::array kRows = {kProgram,   kPipeline,   kPipelineWaits, kPipelineIdle, "forward",
                              "backward", "optimizer", "waits",        "gather",      "reduce"};
constexpr int kRowsOfAKind = 1000;

int first_row_of(const char* kind) {
  const auto found = std::find(kRows.begin(), kRows.end(), std::string_view(kind));
  return static_cast<int>(found - kRows.begin()) * kRowsOfAKind + 1;
}

// The rows of one kind: each span goes to the first in which it overlaps none. Asynchronous events would need no rows,
// but viewers give those of each name, here each unit, a row of its own.
class Rows {
 public:
  int place(const NamedSpan& span) {
    auto free = std::find_if(ends_.begin(), ends_.end(), [&](int64_t end) { return end <= span.begin; });
    if (free == ends_.end()) free = ends_.insert(ends_.end(), 0);
    *free = span.end;
    return static_cast<int>(free - ends_.begin());
  }
  // In the first, with what it lies in.
  int nest(const NamedSpan& span) {
    ends_.assign(1, span.end);
    return 0;
  }
  size_t count() const { return ends_.size(); }

 private:
  std::vector<int64_t> ends_;
};

double microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1000; }

Json title(const char* what, int rank, int row, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", row}, {"args", {{"name", name}}}};
}

Json order(const char* what, int rank, int row, int place) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", row}, {"args", {{"sort_index", place}}}};
}

Json facts_of(const NamedSpan& span) {
  Json facts = Json::object();
  for (const auto& [name, fact] : span.facts) std::visit([&](const auto& value) { facts[name] = value; }, fact);
  return facts;
}

}  // namespace

std::vector<NamedSpan> named_spans(const std::vector<Span>& spans, const std::vector<std::string>& units) {
  std::vector<NamedSpan> named;
  for (const Span& span : spans) {
    const auto [row, name] = shown_as(span.activity);
    named.push_back({.row = row,
                     .name = span.unit == kNoUnit ? name : fmt::format("{} {}", name, units[span.unit]),
                     .begin = span.begin,
                     .end = span.end});
  }
  return named;
}

std::vector<CountedBytes> counted_bytes(const std::vector<MemorySample>& memory) {
  std::vector<CountedBytes> counted;
  for (const MemorySample& sample : memory) {
    counted.push_back({.time = sample.time,
                       .bytes = {{"parameters", sample.parameters},
                                 {"gradients", sample.gradients},
                                 {"optimizer", sample.optimizer},
                                 {"full parameters", sample.full_parameters},
                                 {"full gradients", sample.full_gradients},
                                 {"activations", sample.activations}}});
    auto& bytes = counted.back().bytes;
    if (sample.other_tensors)
      bytes.emplace_back("other tensors", std::max<int64_t>(0, *sample.other_tensors - sample.activations));
    if (sample.in_files > 0) bytes.emplace_back("state in files", sample.in_files);
  }
  return counted;
}

namespace {

std::vector<const NamedSpan*> sorted_spans(const std::vector<TracePart>& parts) {
  std::vector<std::tuple<int64_t, int64_t, int, size_t, const NamedSpan*>> keys;
  for (const TracePart& part : parts) {
    // Those of equal times stay in the order in which they ended.
    for (const NamedSpan& span : part.spans)
      keys.emplace_back(span.begin, -span.end, first_row_of(span.row), keys.size(), &span);
  }
  std::ranges::sort(keys);
  std::vector<const NamedSpan*> sorted;
  for (const auto& key : keys) sorted.push_back(std::get<const NamedSpan*>(key));
  return sorted;
}

// A counter for each part that has memory: "memory", "memory 2", ...
void add_memory(const std::vector<TracePart>& parts, int rank, int64_t shift, Json& events) {
  int number = 0;
  for (const TracePart& part : parts) {
    if (part.memory.empty()) continue;
    const std::string name = ++number == 1 ? "memory" : fmt::format("memory {}", number);
    for (const CountedBytes& counted : part.memory) {
      Json bytes = Json::object();
      for (const auto& [what, count] : counted.bytes) bytes[what] = count;
      events.push_back({{"name", name},
                        {"cat", "memory"},
                        {"ph", "C"},
                        {"ts", microseconds(counted.time + shift)},
                        {"pid", rank},
                        {"args", std::move(bytes)}});
    }
  }
}

}  // namespace

std::string trace_events(const std::vector<TracePart>& parts, int rank, int64_t shift) {
  const std::vector<const NamedSpan*> sorted = sorted_spans(parts);
  std::map<std::string, Rows> rows;
  Json events = Json::array();
  events.push_back(title("process_name", rank, 0, text_of_rank(rank)));
  events.push_back(order("process_sort_index", rank, 0, rank));
  for (const NamedSpan* one : sorted) {
    const NamedSpan& span = *one;
    Rows& of_kind = rows[span.row];
    const int place = span.row == std::string_view(kProgram) ? of_kind.nest(span) : of_kind.place(span);
    Json event = {{"name", span.name},
                  {"cat", span.row},
                  {"ph", "X"},
                  {"ts", microseconds(span.begin + shift)},
                  {"dur", microseconds(span.end - span.begin)},
                  {"pid", rank},
                  {"tid", first_row_of(span.row) + place}};
    if (!span.facts.empty()) event["args"] = facts_of(span);
    events.push_back(std::move(event));
  }
  add_memory(parts, rank, shift, events);
  for (const char* kind : kRows) {
    for (size_t i = 0; i < rows[kind].count(); ++i) {
      const int row = first_row_of(kind) + static_cast<int>(i);
      events.push_back(title("thread_name", rank, row, i == 0 ? kind : fmt::format("{} {}", kind, i + 1)));
      events.push_back(order("thread_sort_index", rank, row, row));
    }
  }
  std::string text = "[\n";
  for (const Json& event : events) text += event.dump() + (&event == &events.back() ? "\n]\n" : ",\n");
  return text;
}

}  // namespace fsdp::report
