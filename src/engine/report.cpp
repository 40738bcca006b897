// What a model says of itself.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "engine/model.h"
#include "engine/report_tables.h"
#include "engine/strategy_name.h"
#include "engine/unit_names.h"

namespace fsdp::engine {

MemoryReport Model::memory() const {
  std::lock_guard lock(mutex_);
  MemoryReport report;
  for (const auto& unit : units_) {
    report.parameter_bytes += unit->shard.nbytes();
    const torch::Tensor published = unit->collectives->shard();
    if (!published.is_alias_of(unit->shard)) report.parameter_bytes += published.nbytes();
    if (unit->sum.values.defined()) report.gradient_bytes += unit->sum.values.nbytes();
    const collectives::UnitBytes bytes = unit->collectives->bytes();
    report.full_parameter_bytes += bytes.gathered;
    report.full_gradient_bytes += bytes.reductions;
    if (unit->full.defined()) report.full_parameter_bytes += unit->full.nbytes();
  }
  for (const auto& parameter : parameters_) {
    if (alone() && parameter.piece.grad().defined()) report.gradient_bytes += parameter.piece.grad().nbytes();
  }
  report.optimizer_bytes = optimizer_bytes_;
  report.full_parameter_bytes += arena_->full.bytes() + group_->buffer_bytes();
  report.full_gradient_bytes += arena_->gradients.bytes() + arena_->staging.bytes();
  return report;
}

CommunicationReport Model::communication() const {
  CommunicationReport report = communication_;
  report.wait_seconds = static_cast<double>(recorder_.all_waited().nanoseconds) * 1e-9;
  return report;
}

void Model::begin_trace() {
  std::lock_guard lock(mutex_);
  FSDP_CHECK(!recorder_.traced(), "trace: the model is traced already. Write or destroy that trace first.");
  recorder_.begin_trace();
  for (int id = 0; id < static_cast<int>(units_.size()); ++id) {
    if (units_[id]->gathered_ahead) recorder_.begins(Activity::Gather, id);
  }
}

std::vector<Span> Model::end_trace() {
  std::lock_guard lock(mutex_);
  return recorder_.end_trace();
}

namespace {

// A gather hands out what is there.
bool copies_nothing(const Unit& unit) {
  const collectives::Capabilities can = unit.collectives->capabilities();
  return can.one_sided && !can.into_buffer;
}

UnitFacts facts_of(const Unit& unit, int rank, torch::ScalarType reduce_dtype) {
  const layout::UnitLayout& layout = unit.layout;
  const layout::GradientLayout& gradients = unit.gradient_layout;
  UnitFacts facts{.name = unit.name};
  for (size_t i = 0; i < layout.parameters(); ++i) facts.numel += layout.numel_of(i);
  const auto element_bytes = static_cast<int64_t>(c10::elementSize(unit.dtype()));
  facts.full_bytes = layout.full_numel() * element_bytes;
  if (!copies_nothing(unit)) facts.gather_bytes = (layout.full_numel() - layout.shard_numel()) * element_bytes;
  for (int peer = 0; peer < layout.ranks(); ++peer) {
    if (peer == rank) continue;
    facts.reduction_bytes += gradients.slice_of(rank).numel() * static_cast<int64_t>(c10::elementSize(reduce_dtype));
    if (layout.shard_index(peer) == layout.shard_index(rank))
      facts.reduction_bytes += gradients.slice_of(peer).numel() * static_cast<int64_t>(sizeof(float));
  }
  return facts;
}

}  // namespace

std::string Model::schedule_text() const {
  std::lock_guard lock(mutex_);
  std::vector<UnitFacts> units;
  for (const auto& unit : units_) units.push_back(facts_of(*unit, group_->rank(), reduce_dtype_));
  const schedule::Record& record = schedule_->record();
  const bool in_place = units_.empty() || copies_nothing(*units_[0]);
  const bool own_buffers = strategy_ == Strategy::ShardOptimizer || strategy_ == Strategy::NoShard;  // a unit
  const ReportOptions options{.gathers = shards_ > 1,
                              .buffers = schedule_->shares_buffers() && !in_place,
                              .gradient_buffers = !alone() && !own_buffers,
                              .waits = record.steps() > 0 && !alone() ? &recorder_ : nullptr,
                              .steps = record.steps()};
  const bool groups = shards_ > 1 && shards_ < group_->size();
  std::string text = fmt::format("{} on {} rank{}{}: {} units", name_of(strategy_), group_->size(), alone() ? "" : "s",
                                 groups ? fmt::format(" in groups of {}", shards_) : "", units.size());
  if (!alone()) {
    text += in_place ? ", gathers copy nothing" : fmt::format(", {} buffers for full units", schedule_->buffers());
    text += fmt::format(", {} buffers for gradients", schedule_->gradient_buffers());
  }
  text += "\n\n";
  text += units_table(units, record.step(), options) + "\n" + step_totals(units, record.step(), options);
  text +=
      record.step().micro_batches.empty() ? "\nno step is recorded yet\n" : step_table(units, record.step(), options);
  const std::vector<int>& evaluation = schedule_->evaluation().plan();
  if (!evaluation.empty()) text += fmt::format("\nwithout gradients: {}\n", list_units(units, evaluation));
  return text;
}

}  // namespace fsdp::engine
