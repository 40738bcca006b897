#include "report/profile_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "console/units.h"

namespace trainer {

namespace {

std::string bytes_text(double bytes) { return short_bytes(static_cast<size_t>(std::max(0.0, bytes))); }

// How the plan counts the bytes of the part.
std::string memory_reason(std::string_view part, bool is_more) {
  if (part == "activations")
    return is_more
               ? "The plan adds up the tensors that one micro-batch's operators save, as tiny runs of the same "
                 "layers measured them. More stay where a graph outlives its backward, or an operator saves copies."
               : "The plan adds up the tensors that one micro-batch's operators save. Fewer are there at once where "
                 "operators share a tensor, or the peak lies at another moment of the step.";
  if (part == "other tensors")
    return "The plan estimates tensors that live within an operator or until the next one. Their number depends on the "
           "order in which autograd frees them, and on the moment of the peak.";
  if (part == "full gradients" || part == "full parameters")
    return is_more ? "The plan counts the buffers that units share. More are taken where ranks use units in different "
                     "orders, and where gathers by copies were found faster."
                   : "The plan counts the most buffers that a step can need, and this run needed fewer of them.";
  return is_more ? "The plan has the exact layout of the state: a buffer is held that it does not count."
                 : "The plan has the exact layout of the state: a part of it was not there yet at the peak.";
}

std::string slowest_unit(const StepShares& shares, double TimeShares::*share) {
  const auto most =
      std::ranges::max_element(shares.units, {}, [share](const NamedShares& unit) { return unit.time.*share; });
  return most == shares.units.end() ? "" : most->name;
}

std::string slowest_rank(const StepShares& shares) {
  const auto most = std::ranges::max_element(shares.waited_for);
  const double all = shares.mean.waiting * static_cast<double>(shares.ranks.size());
  if (most == shares.waited_for.end() || *most <= all / 2) return "";
  return fmt::format(" Most of it is for rank {}.", most - shares.waited_for.begin());
}

std::vector<ComparedNumber> compared_times(const ProfilePlan& plan, const StepShares& shares) {
  const TimeShares& mean = shares.mean;
  const double step = *plan.step_seconds, idle = step * plan.idle_share;
  return {{"computation", step - idle, mean.computation, fmt::format("The plan assumes: {}.", plan.assumed)},
          {"exposed communication", 0, mean.exposed,
           fmt::format("The plan assumes that communication hides behind computation. Most of it is exposed at {}.",
                       slowest_unit(shares, &TimeShares::exposed))},
          {"waiting for the slowest rank", 0, mean.waiting,
           "The plan assumes that all ranks are equally fast." + slowest_rank(shares)},
          {"idle in the pipeline", idle, mean.idle,
           "The plan computes the idle time from the costs of the blocks, without the time of messages."},
          {"others", 0, mean.others,
           "The plan leaves out data, norms, losses and records, which lie between the uses of units."}};
}

const ComparedNumber& largest_difference(const std::vector<ComparedNumber>& numbers) {
  return *std::ranges::max_element(
      numbers, {}, [](const ComparedNumber& number) { return std::abs(number.measured - number.planned); });
}

// "The peak is 12 % above the plan (1.2 GB, planned 1.1 GB). Activations differ most: ... Why."
std::string difference_text(const std::string& whole, double measured, double planned,
                            const std::vector<ComparedNumber>& numbers, std::string (*text_of)(double)) {
  const ComparedNumber& most = largest_difference(numbers);
  const double share = planned > 0 ? measured / planned - 1 : 0;
  const std::string about = std::abs(share) < 0.005 ? "is as planned"
                                                    : fmt::format("is {:.0f} % {} the plan", 100 * std::abs(share),
                                                                  share > 0 ? "above" : "below");
  std::string text = fmt::format("{} {}: {}, planned {}.", whole, about, text_of(measured), text_of(planned));
  const double difference = most.measured - most.planned;
  if (std::abs(difference) < 0.005 * planned) return text + " No part differs by more than 0.5 % of it.";
  return text + fmt::format(" The largest difference: {}, {} {} than the planned {}. {}", most.name,
                            text_of(std::abs(difference)), difference > 0 ? "more" : "less", text_of(most.planned),
                            most.reason);
}

}  // namespace

Comparison compare_with_plan(const Profile& profile, const MemoryPeak& peak, const StepShares& shares) {
  const ProfilePlan& plan = *profile.plan;
  Comparison comparison;
  for (const auto& [part, planned] : plan.memory) {
    const auto measured = static_cast<double>(part_bytes(peak.memory, part));
    comparison.memory.push_back({part, planned, measured, memory_reason(part, measured > planned)});
  }
  if (!comparison.memory.empty())
    comparison.memory_sentences =
        difference_text("The peak", static_cast<double>(peak.bytes), plan.peak_bytes, comparison.memory, bytes_text);
  if (!plan.step_seconds || *plan.step_seconds <= 0) return comparison;
  comparison.time = compared_times(plan, shares);
  comparison.time_sentences =
      difference_text("A step", shares.mean.sum(), *plan.step_seconds, comparison.time, rough_duration);
  return comparison;
}

}  // namespace trainer
