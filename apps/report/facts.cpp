#include "report/facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "console/units.h"
#include "report/card.h"
#include "report/status.h"
#include "report/text.h"

namespace trainer {

namespace {

// "2026-11-23T03:01:02Z" as people read it. Anything else stays as it is.
std::string readable(const std::string& time) {
  const bool is_time = time.size() == 20 && time[10] == 'T' && time.back() == 'Z';
  return is_time ? fmt::format("{} {} UTC", time.substr(0, 10), time.substr(11, 8)) : time;
}

// A whole number of the configuration, grouped; other text as it is.
std::string grouped_text(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? grouped(number) : text;
}

std::string count_with(int64_t count, const char* noun) {
  return fmt::format("{} {}{}", grouped(count), noun, count == 1 ? "" : "s");
}

std::string ranks_text(const RunFolder& run, const ProcessStart& start) {
  std::string text = grouped(start.ranks);
  if (start.hosts > 1) text += fmt::format(" on {}", count_with(start.hosts, "host"));
  if (const std::string strategy = run.setting("strategy"); !strategy.empty()) text += ", " + strategy;
  return fmt::format("{}, {} per rank", text, count_with(start.threads, "thread"));
}

std::string machine_text(const ProcessStart& start) {
  std::vector<std::string> parts;
  for (const std::string& part : {start.host, start.processor}) {
    if (!part.empty()) parts.push_back(part);
  }
  if (start.cores > 0) parts.push_back(count_with(start.cores, "core"));
  if (start.total_memory > 0) parts.push_back(short_bytes(static_cast<size_t>(start.total_memory)) + " of memory");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string end_text(const RunFolder& run) {
  const std::optional<ProcessEnd>& end = run.metrics.processes.back().end;
  if (end) return fmt::format("{} ({})", readable(end->time), word_of(end->status));
  return run.status == RunStatus::Running ? "it is running" : "it left no record of its end";
}

std::string processes_text(const std::vector<RunProcess>& processes) {
  std::vector<std::string> first_steps;
  for (const RunProcess& process : processes) first_steps.push_back(grouped(process.start.step));
  return fmt::format("{}, from steps {}", processes.size(), fmt::join(first_steps, ", "));
}

std::string data_fact(const std::optional<DataRecord>& data) {
  if (!data) return "";
  const int64_t skipped = data->hidden + data->binary + data->empty + data->unreadable;
  return fmt::format("{} tokens to train on, {} to validate with{}", grouped(data->training_tokens),
                     grouped(data->validation_tokens),
                     skipped > 0 ? fmt::format("; {} entries of its folders skipped", grouped(skipped)) : "");
}

Facts facts_of(const RunFolder& run) {
  const std::vector<RunProcess>& processes = run.metrics.processes;
  if (processes.empty()) {
    return {{"Parameters", grouped_text(run.setting("parameters"))}, {"Ranks", grouped_text(run.setting("ranks"))}};
  }
  const ProcessStart& last = processes.back().start;
  return {{"Model", last.model},
          {"Parameters", grouped(last.parameters)},
          {"Data", data_fact(run.metrics.data)},
          {"Ranks", ranks_text(run, last)},
          {"Machine", machine_text(last)},
          {"Began", readable(processes.front().start.time)},
          {"Ended", end_text(run)},
          {"Processes", processes.size() > 1 ? processes_text(processes) : ""},
          {"Software", fmt::format("fsdp-train {}, LibTorch {}", last.fsdp_version, last.torch_version)},
          {"Folder", last.folder}};
}

std::string card(const RunFolder& run, const std::string& heading) {
  const std::vector<RunProcess>& processes = run.metrics.processes;
  return facts_card(facts_of(run), processes.empty() ? "" : processes.back().start.command, heading);
}

}  // namespace

std::string progress_of(const RunFolder& run) {
  const RunMetrics& metrics = run.metrics;
  if (metrics.processes.empty()) {
    return fmt::format("Steps {} to {}", grouped(metrics.steps.front()), grouped(metrics.steps.back()));
  }
  const int64_t done = metrics.steps.back();
  const int64_t wanted = std::max(metrics.processes.back().start.steps, done);
  return fmt::format("Step {} of {}, began {}", grouped(done), grouped(wanted),
                     readable(metrics.processes.front().start.time));
}

std::string notice_of(const RunFolder& run) {
  if (run.status == RunStatus::BrokenOff) {
    return fmt::format(
        "<p class=\"notice bad\">The process left no record of its end: it was killed, or the machine went "
        "down, after step {}.</p>\n",
        grouped(run.metrics.steps.back()));
  }
  const bool has_ended = run.status == RunStatus::Stopped || run.status == RunStatus::Failed;
  if (!has_ended) return "";
  const std::string reason = run.metrics.processes.back().end->reason;
  if (reason.empty()) return "";
  const bool has_failed = run.status == RunStatus::Failed;
  return fmt::format("<p class=\"notice{}\">{}{}</p>\n", has_failed ? " bad" : "",
                     has_failed ? "" : "Stopped by a signal: ", html(reason));
}

std::string facts_section(const std::vector<RunFolder>& runs) {
  std::string cards;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string heading = runs.size() == 1
                                    ? ""
                                    : fmt::format("<h3><span class=\"swatch run-{}\"></span>{} {}</h3>\n{}", i % 8,
                                                  html(runs[i].name), status_label(runs[i].status), notice_of(runs[i]));
    cards += card(runs[i], heading);
  }
  if (cards.empty()) return "";
  const char* heading = runs.size() == 1 ? "" : "<h2>How they were run</h2>\n";
  return fmt::format("<section id=\"facts\">\n{}<div class=\"side-by-side\">\n{}</div></section>\n", heading, cards);
}

}  // namespace trainer
