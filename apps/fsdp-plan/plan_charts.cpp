#include "fsdp-plan/plan_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "planning/plan_text.h"
#include "report/bars.h"
#include "report/part_colours.h"
#include "report/text.h"

namespace planner {

namespace {

using trainer::Bar;
using trainer::BarPart;
using trainer::PlanNumbers;

constexpr double kAlike = 5e-3;  // of a peak

BarPart memory_part(const char* name, double bytes) { return {name, trainer::part_colour(name), bytes}; }

double sum_of(const std::vector<BarPart>& parts) {
  double sum = 0;
  for (const BarPart& part : parts) sum += part.value;
  return sum;
}

using Parts = std::vector<BarPart>;

Parts joined(std::initializer_list<Parts> groups) {
  Parts all;
  for (const Parts& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

// Parts that are not there at the peak come last. They are the shards, if they are offloaded; otherwise gradients,
// which come as activations go; or the activations, if the peak is at the end of a backward.
Parts memory_parts(const trainer::PlannedMemory& memory, bool is_offloaded) {
  const Parts state = {memory_part("parameters", memory.parameters), memory_part("optimizer", memory.optimizer)};
  const Parts full = {memory_part("full parameters", memory.full_parameters)};
  const Parts gradients = {memory_part("gradients", memory.gradients)};
  const Parts full_gradients = {memory_part("full gradients", memory.full_gradients)};
  const Parts tensors = {memory_part("activations", memory.activations), memory_part("other tensors", memory.others)};
  if (is_offloaded) return joined({full, full_gradients, tensors, gradients, state});
  Parts parts = joined({state, full, tensors, gradients, full_gradients});
  if (sum_of(parts) - memory.peak < (1 - kAlike) * sum_of(tensors)) return parts;
  return joined({state, full, gradients, full_gradients, tensors});
}

Bar memory_bar(const PlanRow& row, bool is_offloaded) {
  const trainer::PlannedMemory& memory = row.numbers.memory;
  Bar bar{.name = row.name,
          .parts = memory_parts(memory, is_offloaded),
          .result = trainer::plan_bytes(memory.peak),
          .label = fit_label(row.numbers)};
  if (sum_of(bar.parts) > (1 + kAlike) * memory.peak) bar.counted = memory.peak;
  return bar;
}

}  // namespace

std::string fit_label(const PlanNumbers& numbers) {
  return numbers.fits ? "<span class=\"status fits\">fits</span>" : "<span class=\"status too-large\">too large</span>";
}

std::string memory_chart(const PlanArguments& arguments, const std::vector<PlanRow>& rows) {
  const std::string limit = trainer::plan_bytes(arguments.target.memory);
  trainer::BarChart chart{.title = "Peak of the rank that holds most",
                          .format = trainer::plan_bytes,
                          .limit = arguments.target.memory,
                          .limit_name = fmt::format("a device has {}", limit)};
  const trainer::RunOptions& options = arguments.options;
  const bool is_offloaded = options.cpu_offload || options.offloads();
  bool is_faint = false;
  for (const PlanRow& row : rows) {
    chart.bars.push_back(memory_bar(row, is_offloaded));
    is_faint = is_faint || chart.bars.back().counted <= row.numbers.memory.peak;
  }
  if (is_faint) chart.note = "faint: not in the memory at the peak";
  return trainer::bar_chart(chart);
}

std::string communication_chart(const std::vector<PlanRow>& rows) {
  trainer::BarChart chart{.title = "Received by a rank in a step", .format = trainer::plan_bytes};
  double most = 0;
  for (const auto& [name, numbers] : rows) {
    const trainer::PlannedCommunication& bytes = numbers.communication;
    most = std::max(most, bytes.within_hosts + bytes.across_hosts);
    chart.bars.push_back({.name = name,
                          .parts = {{"within hosts", 0, bytes.within_hosts}, {"across hosts", 1, bytes.across_hosts}},
                          .result = trainer::plan_bytes(bytes.within_hosts + bytes.across_hosts)});
  }
  return most > 0 ? trainer::bar_chart(chart) : "<p>A rank receives nothing.</p>\n";
}

std::string time_chart(const PlanArguments& arguments, const std::vector<PlanRow>& rows) {
  trainer::BarChart chart{
      .title = "A step", .note = fmt::format("{}, simulated", arguments.target.engine), .format = seconds_text};
  bool is_known = false;
  for (const auto& [name, numbers] : rows) {
    Bar bar{.name = name, .result = "not known"};
    if (numbers.time) {
      is_known = true;
      bar.parts = {{"computation", 0, numbers.time->compute},
                   {"exposed communication", 1, numbers.time->exposed_communication},
                   {"idle", 2, numbers.time->idle}};
      bar.result = seconds_text(numbers.time->step);
    }
    chart.bars.push_back(std::move(bar));
  }
  if (is_known) return trainer::bar_chart(chart);
  return fmt::format("<p>Not known: there is no schedule of {} for such a run.</p>\n",
                     trainer::html(arguments.target.engine));
}

}  // namespace planner
