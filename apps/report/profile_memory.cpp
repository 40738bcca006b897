#include "report/profile_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "console/units.h"
#include "report/decimate.h"
#include "report/part_colours.h"
#include "report/text.h"

namespace trainer {

namespace {

constexpr size_t kMostValues = 1000;

const char* meaning_of(const std::string& part) {
  static const std::map<std::string, const char*> kMeanings = {
      {"parameters", "the shards of this rank"},
      {"gradients", "the gradients of its shards"},
      {"optimizer", "the optimizer's state for its shards"},
      {"full parameters", "gathered units"},
      {"full gradients", "gradients of whole units, until they are reduced"},
      {"activations", "tensors that the forward saves for the backward"},
      {"other tensors", "tensors that live within an operator or until the next ones: logits, products, gradients"}};
  const auto found = kMeanings.find(part);
  return found == kMeanings.end() ? "" : found->second;
}

bool is_computation(const TraceSpan& span) {
  return span.kind == "forward" || span.kind == "backward" || span.kind == "optimizer";
}

// "the backward of blocks.3", of the computation that has most of that time.
std::string computation_at(const RankTrace& trace, int64_t begin, int64_t end) {
  const TraceSpan* most = nullptr;
  int64_t longest = 0;
  for (const TraceSpan& span : trace.spans) {
    const int64_t common = std::min(span.end, end) - std::max(span.begin, begin);
    if (!is_computation(span) || common <= longest) continue;
    most = &span;
    longest = common;
  }
  if (most == nullptr) return "";
  const size_t space = most->name.find(' ');
  const std::string what = most->name.substr(0, space);
  return space == std::string::npos ? "the " + what : fmt::format("the {} of {}", what, most->name.substr(space + 1));
}

std::string step_at(const RankTrace& trace, int64_t time) {
  for (const TraceSpan& span : trace.spans) {
    if (span.kind == "program" && span.name.starts_with("step ") && span.begin <= time && time <= span.end)
      return span.name;
  }
  return "";
}

int64_t end_of(const RankTrace& trace, size_t sample) {
  if (sample + 1 < trace.memory.size()) return trace.memory[sample + 1].time;
  int64_t end = trace.memory[sample].time;
  for (const TraceSpan& span : trace.spans) end = std::max(end, span.end);
  return end;
}

// In each group of samples the highest one, with the time of the group.
std::vector<std::pair<std::pair<int64_t, int64_t>, TraceMemory>> fewer_samples(const RankTrace& trace) {
  std::vector<std::pair<std::pair<int64_t, int64_t>, TraceMemory>> fewer;
  const Grid grid = grid_of(trace.memory.size(), kMostValues);
  for (size_t group = 0; group < grid.groups(); ++group) {
    const auto first = trace.memory.begin() + static_cast<std::ptrdiff_t>(grid.first(group));
    const auto end = trace.memory.begin() + static_cast<std::ptrdiff_t>(grid.end(group));
    const TraceMemory& highest =
        *std::max_element(first, end, [](const TraceMemory& a, const TraceMemory& b) { return a.total() < b.total(); });
    fewer.push_back({{first->time, end_of(trace, grid.end(group) - 1)}, highest});
  }
  return fewer;
}

std::string joined_numbers(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ",") + json_number(value);
  return "[" + text + "]";
}

}  // namespace

TraceMemory without_files(TraceMemory memory) {
  int64_t in_files = part_bytes(memory, "state in files");
  for (const char* part : {"optimizer", "parameters", "full parameters", "gradients"}) {
    for (auto& [name, bytes] : memory.bytes) {
      if (name != part) continue;
      const int64_t moved = std::min(bytes, in_files);
      bytes -= moved;
      in_files -= moved;
    }
  }
  std::erase_if(memory.bytes, [](const auto& part) { return part.first == "state in files"; });
  return memory;
}

int64_t part_bytes(const TraceMemory& memory, const std::string& part) {
  const auto found = std::ranges::find(memory.bytes, part, [](const auto& entry) { return entry.first; });
  return found == memory.bytes.end() ? 0 : found->second;
}

MemoryPeak peak_of_rank(const Profile& profile, size_t rank) {
  MemoryPeak peak{.rank = rank};
  for (const TraceMemory& memory : profile.ranks.at(rank).memory) {
    if (memory.total() <= peak.bytes) continue;
    peak.bytes = memory.total();
    peak.memory = memory;
  }
  return peak;
}

MemoryPeak highest_peak(const Profile& profile) {
  MemoryPeak highest;
  for (size_t rank = 0; rank < profile.ranks.size(); ++rank) {
    if (MemoryPeak peak = peak_of_rank(profile, rank); peak.bytes > highest.bytes) highest = std::move(peak);
  }
  return highest;
}

std::string peak_sentences(const Profile& profile, const MemoryPeak& peak) {
  if (peak.bytes == 0) return "The trace has no memory.";
  const RankTrace& trace = profile.ranks.at(peak.rank);
  const auto at = std::ranges::find(trace.memory, peak.memory.time, &TraceMemory::time);
  const int64_t end = end_of(trace, static_cast<size_t>(at - trace.memory.begin()));
  const std::string computation = computation_at(trace, peak.memory.time, end);
  const std::string step = step_at(trace, peak.memory.time);
  std::vector<std::pair<std::string, int64_t>> parts = without_files(peak.memory).bytes;
  std::ranges::sort(parts, std::greater(), [](const auto& part) { return part.second; });
  const auto share = [&](const auto& part) {
    return fmt::format("{}, {} ({:.0f} %): {}", part.first, short_bytes(static_cast<size_t>(part.second)),
                       100.0 * static_cast<double>(part.second) / static_cast<double>(peak.bytes),
                       meaning_of(part.first));
  };
  std::string text = fmt::format("Rank {} holds most: {} at its peak{}{}. The largest part: {}.", trace.rank,
                                 short_bytes(static_cast<size_t>(peak.bytes)), step.empty() ? "" : ", in " + step,
                                 computation.empty() ? "" : fmt::format(", during {}", computation), share(parts[0]));
  if (parts.size() > 1 && parts[1].second > 0) text += fmt::format(" The next one: {}.", share(parts[1]));
  return text;
}

std::string memory_course_json(const Profile& profile, const MemoryPeak& peak) {
  const RankTrace& trace = profile.ranks.at(peak.rank);
  const auto samples = fewer_samples(trace);
  const int64_t zero = samples.empty() ? 0 : samples.front().first.first;
  std::vector<double> steps, times;
  std::map<std::string, std::vector<double>> parts;
  for (const auto& [ends, memory] : samples) {
    for (const int64_t time : {ends.first, ends.second}) {
      steps.push_back(static_cast<double>(steps.size()));
      times.push_back(static_cast<double>(time - zero) * 1e-6);
      for (const auto& [name, bytes] : without_files(memory).bytes) parts[name].push_back(static_cast<double>(bytes));
    }
  }
  std::string memory;
  for (const char* part : kMemoryParts) {
    const auto found = parts.find(part);
    if (found == parts.end() || found->second.size() != steps.size()) continue;
    memory += fmt::format("{}{{\"name\":{},\"colour\":{},\"bytes\":{}}}", memory.empty() ? "" : ",", json_string(part),
                          part_colour(part), joined_numbers(found->second));
  }
  return fmt::format(
      "{{\"runs\":[{{\"name\":\"rank {}\",\"step\":{},\"milliseconds\":{},\"series\":{{}},\"memory\":[{}],"
      "\"events\":[]}}]}}",
      trace.rank, joined_numbers(steps), joined_numbers(times), memory);
}

}  // namespace trainer
