#include "planning/fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "console/units.h"
#include "planning/host_memory.h"
#include "planning/plan_text.h"
#include "planning/remedies.h"

namespace trainer {

namespace {

// The heap of the C library keeps memory that was freed, which is in no plan: up to 15 % of a process was seen.
Fit fit_of(double needed, double available) {
  constexpr double kWell = 0.8;
  if (needed > available) return Fit::kNot;
  return needed > kWell * available ? Fit::kBarely : Fit::kWell;
}

const char* verdict(double needed, double available) {
  switch (fit_of(needed, available)) {
    case Fit::kWell:
      return "fits";
    case Fit::kBarely:
      return "barely fits";
    case Fit::kNot:
      return "does not fit";
  }
  return "";
}

std::string memory_line(const RunPlan& plan, double needed) {
  const std::optional<double> available = plan.memory();
  const std::string text =
      available ? fmt::format("{}: {} needed, {} {}", verdict(needed, *available), plan_bytes(needed),
                              plan_bytes(*available), plan.options.memory ? "given" : "available")
                : fmt::format("{} needed; --memory says how much there is, such as --memory 64GB", plan_bytes(needed));
  return plan_line(plan.host.on_gpus ? "memory of GPUs" : "memory", text);
}

std::string disk_line(const RunPlan& plan, double available) {
  return plan_line(
      "disk", fmt::format("{}: {} needed for the files, {} available", fits_on_disk(plan) ? "fits" : "does not fit",
                          plan_bytes(host_bytes_in_files(plan)), plan_bytes(available)));
}

std::string cores_line(const RunPlan& plan, int64_t cores) {
  const int64_t ranks = plan.ranks_of_host(), threads = plan.host.threads;
  const bool fits = ranks * threads <= cores;
  return plan_line("cores", fmt::format("{}: {} x {} {} {}", fits ? "fits" : "does not fit", counted(ranks, "rank"),
                                        counted(threads, "thread"), fits ? "on" : "share", counted(cores, "core")));
}

// A flag and its value stay in one line.
std::string remedy_line(const Remedy& remedy, bool fits) {
  constexpr char kGlue = '\x1f';
  std::string change = remedy.change;
  for (size_t at = change.find("--"); at < change.size(); at = change.find("--", at + 2)) {
    const size_t space = change.find(' ', at);
    const bool has_value = space != std::string::npos && change.compare(space + 1, 2, "--") != 0;
    if (has_value) change[space] = kGlue;
  }
  std::string line = plan_line(fmt::format("{:>18}", plan_bytes(remedy.bytes)),
                               fmt::format("with {}{}", change, fits ? ": fits" : ""));
  std::ranges::replace(line, kGlue, ' ');
  return line;
}

std::string remedies_text(const RunPlan& plan, double available) {
  std::string text = "  it would take\n";
  bool any_fits = false;
  for (const Remedy& remedy : remedies(plan, available)) {
    const bool fits = remedy.bytes <= available;
    any_fits = any_fits || fits;
    text += remedy_line(remedy, fits);
  }
  return any_fits ? text : text + plan_line("none of these fits", "take a smaller model, or a host with more memory");
}

}  // namespace

Fit fit(const RunPlan& plan) {
  const std::optional<double> available = plan.memory();
  return available ? fit_of(host_bytes(plan), *available) : Fit::kWell;
}

bool fits_on_disk(const RunPlan& plan) { return !plan.host.disk || host_bytes_in_files(plan) <= *plan.host.disk; }

std::string fit_text(const RunPlan& plan) {
  const double needed = host_bytes(plan);
  const std::optional<double> available = plan.memory();
  std::string text = plan.options.memory ? "another host\n" : "this host\n";
  text += memory_line(plan, needed);
  // Another host may have others.
  if (plan.host.disk && !plan.options.memory) text += disk_line(plan, *plan.host.disk);
  if (plan.host.cores && !plan.options.memory) text += cores_line(plan, *plan.host.cores);
  return available && needed > *available ? text + remedies_text(plan, *available) : text;
}

}  // namespace trainer
