#include "planning/activation_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "console/units.h"
#include "planning/plan_text.h"

namespace trainer {

std::string activation_plan_text(const fsdp::ActivationPlan& plan) {
  using fsdp::KeptResults;
  std::vector<std::string> parts;
  for (const auto& [keep, what] : {std::pair{KeptResults::All, "all"},
                                   {KeptResults::Products, "the results of products"},
                                   {KeptResults::None, "their input"}}) {
    const auto layers = std::ranges::count(plan.keep, keep);
    const std::string who =
        parts.empty() ? counted(layers, "layer") + (layers == 1 ? " keeps" : " keep") : fmt::format("{}", layers);
    if (layers > 0) parts.push_back(fmt::format("{} {}", who, what));
  }
  return fmt::format("activations take {} at most: {}", plan_bytes(static_cast<double>(plan.peak_bytes)),
                     fmt::join(parts, ", "));
}

}  // namespace trainer
