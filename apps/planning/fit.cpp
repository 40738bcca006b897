#include "planning/fit.h"

#include <fmt/format.h>

#include "console/units.h"
#include "planning/host_memory.h"
#include "planning/plan_text.h"
#include "planning/remedies.h"

namespace trainer {

namespace {

const char* verdict(double needed, double available) {
  constexpr double kAmple = 0.9;  // of what is available: activations are an estimate
  if (needed > available) return "does not fit";
  return needed > kAmple * available ? "fits, with little to spare" : "fits";
}

std::string memory_line(const RunPlan& plan, double needed) {
  const std::optional<double> available = plan.memory();
  const std::string text =
      available ? fmt::format("{}: {} needed, {} {}", verdict(needed, *available), plan_bytes(needed),
                              plan_bytes(*available), plan.options.memory ? "given" : "available")
                : fmt::format("{} needed; --memory says how much there is, such as --memory 64GB", plan_bytes(needed));
  return plan_line("memory", text);
}

std::string cores_line(const RunPlan& plan, int64_t cores) {
  const int64_t ranks = plan.ranks_of_host(), threads = plan.host.threads;
  const bool fits = ranks * threads <= cores;
  return plan_line("cores", fmt::format("{}: {} x {} on {}{}", fits ? "fits" : "does not fit", counted(ranks, "rank"),
                                        counted(threads, "thread"), counted(cores, "core"),
                                        fits ? "" : ", which they have to share"));
}

std::string remedies_text(const RunPlan& plan, double available) {
  std::string text;
  for (const Remedy& remedy : remedies(plan, available)) {
    const bool fits = remedy.bytes <= available;
    text += plan_line(fmt::format("{:>18}", plan_bytes(remedy.bytes)),
                      fmt::format("with {}{}", remedy.change, fits ? ": fits" : ""));
  }
  return text.empty() ? text : fmt::format("  it would take\n{}", text);
}

}  // namespace

std::string fit_text(const RunPlan& plan) {
  const double needed = host_bytes(plan);
  const std::optional<double> available = plan.memory();
  std::string text = plan.options.memory ? "another host\n" : "this host\n";
  text += memory_line(plan, needed);
  // Another host may have others.
  if (plan.host.cores && !plan.options.memory) text += cores_line(plan, *plan.host.cores);
  return available && needed > *available ? text + remedies_text(plan, *available) : text;
}

}  // namespace trainer
