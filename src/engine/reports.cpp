#include "engine/reports.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "engine/full_scope.h"
#include "engine/report_tables.h"
#include "engine/strategy_name.h"
#include "engine/unit_names.h"

namespace fsdp::engine {

MemoryReport memory_report(const Model& model) {
  const Parts& parts = model.parts();
  const std::lock_guard lock(parts.mutex);
  MemoryReport report;
  for (const auto& unit : parts.units) {
    report.parameter_bytes += unit->shard_bytes();
    report.gradient_bytes += unit->sum->bytes();
    const collectives::UnitBytes bytes = unit->collectives->bytes();
    report.full_parameter_bytes += bytes.gathered;
    report.full_gradient_bytes += bytes.reductions;
  }
  if (parts.full_scope != nullptr) report.full_parameter_bytes += parts.full_scope->bytes();
  const buffers::Arena& arena = parts.executor.arena();
  report.full_parameter_bytes += arena.full.bytes();
  report.full_gradient_bytes += arena.gradients.bytes() + arena.staging.bytes();
  report.optimizer_bytes = parts.optimizer_bytes;
  return report;
}

CommunicationReport communication_report(const Model& model) {
  const Parts& parts = model.parts();
  const std::lock_guard lock(parts.mutex);
  CommunicationReport report = parts.executor.communication();
  report.wait_seconds = static_cast<double>(parts.recorder.all_waited().nanoseconds) * 1e-9;
  return report;
}

void begin_trace(Model& model) {
  Parts& parts = model.parts();
  const std::lock_guard lock(parts.mutex);
  FSDP_CHECK(!parts.recorder.traced(), "trace: the model is traced already. Write or destroy that trace first.");
  parts.recorder.begin_trace();
  for (int id = 0; id < static_cast<int>(parts.units.size()); ++id) {
    if (parts.executor.gathers_ahead(id)) parts.recorder.begins(Activity::Gather, id);
  }
}

std::vector<report::Span> end_trace(Model& model) {
  const std::lock_guard lock(model.parts().mutex);
  return model.parts().recorder.end_trace();
}

namespace {

UnitFacts facts_of(const ShardedUnit& unit, int rank, torch::ScalarType reduce_dtype) {
  const layout::UnitLayout& layout = unit.layout;
  const layout::GradientLayout& gradients = unit.sum->gradient_layout();
  UnitFacts facts{.name = unit.name};
  for (size_t i = 0; i < layout.parameters(); ++i) facts.numel += layout.numel_of(i);
  const auto element_bytes = static_cast<int64_t>(c10::elementSize(unit.dtype()));
  facts.full_bytes = layout.full_numel() * element_bytes;
  if (unit.collectives->capabilities().into_buffer)
    facts.gather_bytes = (layout.full_numel() - layout.shard_numel()) * element_bytes;
  for (int peer = 0; peer < layout.ranks(); ++peer) {
    if (peer == rank) continue;
    facts.reduction_bytes += gradients.slice_of(rank).numel() * static_cast<int64_t>(c10::elementSize(reduce_dtype));
    if (layout.shard_index(peer) == layout.shard_index(rank))
      facts.reduction_bytes += gradients.slice_of(peer).numel() * static_cast<int64_t>(sizeof(float));
  }
  return facts;
}

}  // namespace

std::string schedule_text(const Model& model) {
  const Parts& parts = model.parts();
  const std::lock_guard lock(parts.mutex);
  const int ranks = parts.group->size();
  const bool alone = ranks == 1;
  std::vector<UnitFacts> units;
  for (const auto& unit : parts.units)
    units.push_back(facts_of(*unit, parts.group->rank(), unit->gradients.dtype()));
  const schedule::Record& record = parts.schedule.record();
  const bool in_place = parts.units.empty() || !parts.units[0]->collectives->capabilities().into_buffer;
  const bool own_buffers = parts.strategy == Strategy::ShardOptimizer || parts.strategy == Strategy::NoShard;  // a unit
  const ReportOptions options{.gathers = parts.shards > 1,
                              .buffers = parts.schedule.shares_buffers() && !in_place,
                              .gradient_buffers = !alone && !own_buffers,
                              .waits = record.steps() > 0 && !alone ? &parts.recorder : nullptr,
                              .steps = record.steps()};
  const bool groups = parts.shards > 1 && parts.shards < ranks;
  std::string text = fmt::format("{} on {} rank{}{}: {} units", name_of(parts.strategy), ranks, alone ? "" : "s",
                                 groups ? fmt::format(" in groups of {}", parts.shards) : "", units.size());
  if (!alone) {
    text += in_place ? ", gathers copy nothing" : fmt::format(", {} buffers for full units", parts.schedule.buffers());
    text += fmt::format(", {} buffers for gradients", parts.schedule.gradient_buffers());
  }
  text += "\n\n";
  text += units_table(units, record.step(), options) + "\n" + step_totals(units, record.step(), options);
  text +=
      record.step().micro_batches.empty() ? "\nno step is recorded yet\n" : step_table(units, record.step(), options);
  const std::vector<int>& evaluation = parts.schedule.evaluation().plan();
  if (!evaluation.empty()) text += fmt::format("\nwithout gradients: {}\n", list_units(units, evaluation));
  return text;
}

}  // namespace fsdp::engine
