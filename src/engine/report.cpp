// What a model says of itself.
#include "base/error.h"
#include "engine/model.h"
#include "engine/strategy_name.h"
#include "report/schedule_text.h"

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

std::vector<report::Span> Model::end_trace() {
  std::lock_guard lock(mutex_);
  return recorder_.end_trace();
}

namespace {

report::UnitFacts facts_of(const Unit& unit, int rank, torch::ScalarType reduce_dtype) {
  const layout::UnitLayout& layout = unit.layout;
  const layout::GradientLayout& gradients = unit.gradient_layout;
  const auto bytes = static_cast<int64_t>(c10::elementSize(unit.dtype()));
  const auto reduced_bytes = static_cast<int64_t>(c10::elementSize(reduce_dtype));
  report::UnitFacts facts{.name = unit.name, .full_bytes = layout.full_numel() * bytes};
  for (size_t i = 0; i < layout.parameters(); ++i) facts.numel += layout.numel_of(i);
  if (unit.collectives->gathers_into_buffer()) facts.gather_bytes = facts.full_bytes - layout.shard_numel() * bytes;
  for (int peer = 0; peer < layout.ranks(); ++peer) {
    if (peer == rank) continue;
    facts.reduction_bytes += gradients.slice_of(rank).numel() * reduced_bytes;
    if (layout.shard_index(peer) == layout.shard_index(rank))  // a replica, which sends its sums in fp32
      facts.reduction_bytes += gradients.slice_of(peer).numel() * static_cast<int64_t>(sizeof(float));
  }
  return facts;
}

}  // namespace

std::string Model::schedule_text() const {
  std::lock_guard lock(mutex_);
  const schedule::Record& record = schedule_->record();
  const bool gathers_copy = !units_.empty() && units_[0]->collectives->gathers_into_buffer();
  const bool own_gradient_buffers = strategy_ == Strategy::ShardOptimizer || strategy_ == Strategy::NoShard;
  const auto waited = [&](Activity wait, int unit = kNoUnit) { return recorder_.waited(wait, unit).nanoseconds; };
  report::ScheduleFacts facts{.strategy = name_of(strategy_),
                              .ranks = group_->size(),
                              .shards = shards_,
                              .buffers = gathers_copy ? schedule_->buffers() : 0,
                              .gradient_buffers = schedule_->gradient_buffers(),
                              .tells_buffers = gathers_copy && schedule_->shares_buffers(),
                              .tells_gradient_buffers = !alone() && !own_gradient_buffers,
                              .evaluation = schedule_->evaluation().plan(),
                              .step = record.step(),
                              .steps = record.steps(),
                              .replica_wait = waited(Activity::WaitReplicas),
                              .agreement_wait = waited(Activity::WaitAgreement),
                              .reader_wait = waited(Activity::WaitReaders)};
  for (int id = 0; id < static_cast<int>(units_.size()); ++id) {
    facts.units.push_back(facts_of(*units_[id], group_->rank(), reduce_dtype_));
    facts.units[id].gather_wait = waited(Activity::WaitGather, id);
    facts.units[id].reduction_wait = waited(Activity::WaitReduce, id);
  }
  return report::schedule_text(facts);
}

}  // namespace fsdp::engine
