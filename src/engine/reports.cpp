#include "engine/reports.h"

#include "base/error.h"
#include "engine/full_scope.h"
#include "engine/model_view.h"
#include "engine/strategy_name.h"
#include "report/schedule_text.h"

namespace fsdp::engine {

namespace {

void add_activations(const Parts& parts, MemoryReport& report) {
  const auto [now, at_peak, elsewhere, elsewhere_at_peak] = parts.activations.count()->bytes();
  report.offloaded_activation_bytes = elsewhere;
  report.peak_offloaded_activation_bytes = elsewhere_at_peak;
  for (size_t id = 0; id < parts.units.size(); ++id) {
    report.activations.push_back({.unit = parts.units[id]->name, .bytes = now[id], .peak_bytes = at_peak[id]});
    report.activation_bytes += now[id];
    report.peak_activation_bytes += at_peak[id];
  }
}

// All but the activations.
void add_state(const Parts& parts, MemoryReport& report) {
  for (const auto& unit : parts.units) {
    report.parameter_bytes += unit->shard_bytes();
    report.gradient_bytes += unit->sum.bytes();
    const collectives::UnitBytes bytes = unit->collectives->bytes();
    report.full_parameter_bytes += bytes.gathered;
    report.full_gradient_bytes += bytes.reductions;
    report.offloaded_bytes += unit->offloaded_bytes() + bytes.in_files;
  }
  if (parts.full_scope != nullptr) report.full_parameter_bytes += parts.full_scope->bytes();
  const buffers::Arena& arena = parts.performer.arena();
  report.full_parameter_bytes += arena.full.bytes() + parts.group->buffer_bytes();
  report.full_gradient_bytes += arena.gradients.bytes() + arena.staging.bytes();
  report.optimizer_bytes = parts.optimizer_bytes;
  report.save_copy_bytes = parts.save_copy_bytes;
}

// Since the last call. Needs the model's lock.
report::MemorySample memory_sample(const Parts& parts, const TraceOptions& options) {
  MemoryReport state;
  add_state(parts, state);
  report::MemorySample sample{.parameters = state.parameter_bytes,
                              .gradients = state.gradient_bytes,
                              .optimizer = state.optimizer_bytes,
                              .full_parameters = state.full_parameter_bytes,
                              .full_gradients = state.full_gradient_bytes,
                              .in_files = state.offloaded_bytes,
                              .activations = parts.activations.count()->take_traced_peak()};
  if (options.tensor_bytes) sample.other_tensors = options.tensor_bytes();
  return sample;
}

}  // namespace

MemoryReport memory_report(const Model& model) {
  const ModelView view(model);
  MemoryReport report;
  add_activations(*view, report);
  add_state(*view, report);
  return report;
}

std::optional<ActivationDecision> activation_decision(const Model& model) {
  return ModelView(model)->activation_budget.decision();
}

std::vector<std::string> gradients_not_finite(const Model& model) {
  const ModelView view(model);
  const Parts& parts = *view;
  const torch::NoGradGuard no_grad;
  std::vector<std::string> names;
  for (const auto& unit : parts.units) {
    for (size_t i = 0; i < unit->parameters.size(); ++i) {
      if (!unit->sum.is_finite(i)) names.push_back(unit->parameters[i].name());
    }
  }
  return names;
}

CommunicationReport communication_report(const Model& model) {
  const ModelView view(model);
  const Parts& parts = *view;
  const schedule::ExchangeCounts& counts = parts.driver.counts();
  CommunicationReport report{.gathers = counts.gathers,
                             .foreseen_gathers = counts.foreseen_gathers,
                             .reductions = counts.reductions,
                             .late_gradients = counts.late_gradients,
                             .all_reductions = counts.all_reductions};
  report.wait_seconds = static_cast<double>(parts.recorder.all_waited().nanoseconds) * 1e-9;
  return report;
}

std::string waits_for(const Model& model) {
  const auto wait = ModelView::waits_now(model);
  if (!wait) return "";
  const auto [activity, unit] = *wait;
  const std::string which = unit == kNoUnit ? "units" : "unit " + model.units().at(unit)->name;
  switch (activity) {
    case Activity::WaitGather:
      return fmt::format("the gather of {}", which);
    case Activity::WaitReduce:
      return fmt::format("the reduction of the gradients of {}", which);
    case Activity::WaitReplicas:
      return fmt::format("the sums of {} of the other shard groups", which);
    case Activity::WaitReaders:
      return fmt::format("the ranks that read the shards of {}", which);
    case Activity::WaitParts:
      return "the sums of the other parts of the model, along another axis";
    default:
      return "agreement of the ranks on the next step";
  }
}

namespace {

// A gather hands out memory that is there.
bool copies_nothing(const ShardedUnit& unit) {
  const collectives::Capabilities can = unit.collectives->capabilities();
  return can.one_sided && !can.into_buffer;
}

report::UnitFacts facts_of(const Parts& parts, int id) {
  const ShardedUnit& unit = *parts.units[id];
  const layout::UnitLayout& layout = unit.layout;
  const layout::GradientLayout& gradients = unit.sum.gradient_layout();
  const auto bytes = static_cast<int64_t>(c10::elementSize(unit.dtype()));
  const auto reduced_bytes = static_cast<int64_t>(c10::elementSize(unit.gradients.dtype()));
  report::UnitFacts facts{.name = unit.name,
                          .full_bytes = layout.full_numel() * bytes,
                          .gather_wait = parts.recorder.waited(Activity::WaitGather, id).nanoseconds,
                          .reduction_wait = parts.recorder.waited(Activity::WaitReduce, id).nanoseconds};
  for (size_t i = 0; i < layout.parameters(); ++i) facts.numel += layout.numel_of(i);
  if (!copies_nothing(unit)) facts.gather_bytes = facts.full_bytes - layout.shard_numel() * bytes;
  const int rank = parts.group->rank();
  facts.reduction_bytes = (layout.ranks() - 1) * gradients.slice_of(rank).numel() * reduced_bytes;
  for (int peer = 0; peer < layout.ranks(); ++peer) {
    if (peer != rank &&
        layout.shard_index(peer) == layout.shard_index(rank))  // a replica, which sends its sums in fp32
      facts.reduction_bytes += gradients.slice_of(peer).numel() * static_cast<int64_t>(sizeof(float));
  }
  return facts;
}

}  // namespace

void add_trace(report::RunningTrace& trace, const std::shared_ptr<Model>& model, const TraceOptions& options) {
  const Parts& parts = *ModelView(*model);  // which hold the recorder that calls
  model->begin_trace([&parts, options] { return memory_sample(parts, options); });
  trace.add([model] {
    std::vector<std::string> units;
    for (const auto& unit : model->units()) units.push_back(unit->name);
    const report::Recorded recorded = model->end_trace();
    return report::TracePart{report::named_spans(recorded.spans, units), report::counted_bytes(recorded.memory)};
  });
}

std::string schedule_text(const Model& model) {
  const ModelView view(model);
  const Parts& parts = *view;
  const schedule::Schedule& schedule = parts.driver.schedule();
  const bool gathers_copy = !parts.units.empty() && !copies_nothing(*parts.units[0]);
  const auto waited = [&](Activity wait) { return parts.recorder.waited(wait).nanoseconds; };
  report::ScheduleFacts facts{.strategy = name_of(parts.strategy),
                              .ranks = parts.group->size(),
                              .shards = parts.shards,
                              .buffers = gathers_copy ? schedule.buffers() : 0,
                              .gradient_buffers = schedule.gradient_buffers(),
                              .tells_buffers = gathers_copy && schedule.shares_buffers(),
                              .tells_gradient_buffers = parts.group->size() > 1 && schedule.shares_gradient_buffers(),
                              .evaluation = schedule.evaluation().plan(),
                              .step = schedule.record().step(),
                              .steps = schedule.record().steps(),
                              .replica_wait = waited(Activity::WaitReplicas),
                              .agreement_wait = waited(Activity::WaitAgreement),
                              .reader_wait = waited(Activity::WaitReaders)};
  for (int id = 0; id < static_cast<int>(parts.units.size()); ++id) facts.units.push_back(facts_of(parts, id));
  return report::schedule_text(facts);
}

}  // namespace fsdp::engine
