// What a model says of itself.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/model.h"

namespace fsdp::engine {

MemoryReport Model::memory() const {
  std::lock_guard lock(mutex_);
  MemoryReport report;
  for (const auto& unit : units_) {
    report.parameter_bytes += unit->shard.nbytes();
    const torch::Tensor published = unit->collectives->shard();
    if (!published.is_alias_of(unit->shard)) report.parameter_bytes += published.nbytes();
    if (unit->sum.values.defined()) report.gradient_bytes += unit->sum.values.nbytes();
    report.full_parameter_bytes += unit->collectives->gathered_bytes();
    report.full_gradient_bytes += unit->collectives->reduction_bytes();
    if (unit->full.defined()) report.full_parameter_bytes += unit->full.nbytes();
  }
  for (const auto& parameter : parameters_) {
    if (alone() && parameter.piece.grad().defined()) report.gradient_bytes += parameter.piece.grad().nbytes();
  }
  report.optimizer_bytes = optimizer_bytes_;
  report.full_parameter_bytes += arena_->full.bytes();
  report.full_gradient_bytes += arena_->gradients.bytes() + arena_->staging.bytes();
  return report;
}

std::string Model::schedule_text() const {
  std::lock_guard lock(mutex_);
  auto names = [&](const std::vector<int>& plan) {
    std::vector<std::string> names;
    for (int unit : plan) names.push_back(units_[unit]->name);
    return names.empty() ? std::string("not recorded yet") : fmt::format("{}", fmt::join(names, " "));
  };
  return fmt::format(
      "{} units, {} buffers for full units, {} for gradients\n"
      "training (forward, then backward): {}\n"
      "without gradients: {}\n",
      units_.size(), schedule_->buffers(), schedule_->gradient_buffers(), names(schedule_->training().plan()),
      names(schedule_->evaluation().plan()));
}

}  // namespace fsdp::engine
