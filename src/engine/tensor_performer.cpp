#include "engine/tensor_performer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/own_operators.h"
#include "memory/mapped_tensor.h"

namespace fsdp::engine {

TensorPerformer::TensorPerformer(Units& units, collectives::Group& group, Recorder& recorder, ModelGradients& gradients,
                                 ShardReaders& readers, ActivationBudget& activation_budget, buffers::Arena arena,
                                 std::shared_ptr<memory::Backing> backing)
    : units_(units),
      group_(group),
      recorder_(recorder),
      gradients_(gradients),
      readers_(readers),
      activation_budget_(activation_budget),
      arena_(std::move(arena)),
      backing_(std::move(backing)),
      to_host_(units.empty() ? torch::Device(torch::kCPU) : units[0]->device()) {}

torch::Tensor TensorPerformer::buffer_for(const ShardedUnit& unit, int buffer) {
  if (!unit.collectives->capabilities().into_buffer) return {};
  return arena_.full.at(buffer, unit.layout.full_numel(), unit.dtype());
}

void TensorPerformer::gather(int id, int buffer, Order order) {
  const OwnOperators own;
  ShardedUnit& unit = *units_[id];
  if (unit.is_divided()) recorder_.begins(Activity::Gather, id);
  unit.collectives->begin_gather(buffer_for(unit, buffer), order);
}

bool TensorPerformer::gather_stalls(int id) {
  const OwnOperators own;
  return recorder_.waits(Activity::WaitGather, id, [&] { return units_[id]->collectives->gather_stalls(); });
}

void TensorPerformer::await_gather(int id) {
  const OwnOperators own;
  ShardedUnit& unit = *units_[id];
  const auto wait = [&] { return unit.collectives->wait_gather(); };
  if (!unit.is_divided()) return unit.bind(wait());
  unit.bind(recorder_.waits(Activity::WaitGather, id, wait));
  recorder_.ends(Activity::Gather, id);
}

void TensorPerformer::gather_for_peers(int id, int spare) {
  const OwnOperators own;
  ShardedUnit& unit = *units_[id];
  recorder_.begins(Activity::Gather, id);
  const torch::Tensor buffer = buffer_for(unit, spare);
  recorder_.waits(Activity::WaitGather, id, [&] {
    if (unit.collectives->capabilities().joins) return unit.collectives->join_gather(buffer);
    unit.collectives->begin_gather(buffer, Order::Common);
    unit.collectives->wait_gather();
    unit.collectives->release();
  });
  recorder_.ends(Activity::Gather, id);
  if (buffer.defined()) arena_.full.release(spare);
}

void TensorPerformer::release(int id, int buffer) {
  const OwnOperators own;
  ShardedUnit& unit = *units_[id];
  unit.collectives->release();
  unit.unbind();
  if (unit.collectives->capabilities().into_buffer) arena_.full.release(buffer);
}

void TensorPerformer::open_gradients(int id, int buffer) {
  const OwnOperators own;
  ShardedUnit& unit = *units_[id];
  std::vector<uint8_t> trainable = unit.trainable();
  unit.gradients.expect(static_cast<int>(std::ranges::count(trainable, 1)));
  if (alone()) return unit.gradients.open_alone();
  unit.sum.open(std::move(trainable));
  if (sums_in_place(unit, buffer) && !arena_.gradients.has(buffer)) {
    const torch::Tensor idle = unit.sum.take_idle_memory();
    if (idle.defined()) arena_.gradients.take_back(buffer, idle);
  }
  const layout::GradientLayout& layout = unit.sum.gradient_layout();
  unit.gradients.open(layout, arena_.gradients.at(buffer, layout.full_numel(), unit.gradients.dtype()));
  for (LateGradient& late : unit.gradients.take_late()) write_gradient(id, late.parameter, std::move(late.gradient));
}

void TensorPerformer::write_gradient(int id, int parameter, torch::Tensor gradient) {
  ShardedUnit& unit = *units_[id];
  FSDP_CHECK_UNIT(unit.gradients.has_place(parameter), unit.name,
                  "{} was unfrozen between two backwards of no_sync scopes. Call step and zero_grad before.",
                  unit.parameters[parameter].name());
  unit.gradients.write(parameter, std::move(gradient));
}

bool TensorPerformer::sums_in_place(const ShardedUnit& unit, int buffer) const {
  return unit.sums_in_place() && !arena_.gradients.is_shared(buffer);
}

void TensorPerformer::reduce(int id, int buffer) {
  const OwnOperators own;
  ShardedUnit& unit = *units_[id];
  recorder_.begins(Activity::Reduce, id);
  if (alone()) {
    if (unit.shard.device() != unit.device()) unit.gradients.bring_to_host(to_host_);
    return;
  }
  unit.gradients.settle();
  const layout::GradientLayout& layout = unit.sum.gradient_layout();
  if (sums_in_place(unit, buffer) && !unit.sum.has_memory()) {
    unit.sum.begin_in(unit.gradients.buffer());
    arena_.gradients.give_away(buffer);
  }
  unit.sum.make_memory();
  const torch::Tensor staging =
      arena_.staging.at(buffer, unit.collectives->staging_numel(layout), unit.gradients.dtype());
  unit.collectives->begin_reduce({&layout, unit.gradients.buffer(), unit.gradients.presence(), staging},
                                 unit.sum.sum());
}

Begun TensorPerformer::has_begun(int id) {
  const OwnOperators own;
  return recorder_.waits(Activity::WaitReduce, id, [&] { return units_[id]->collectives->wait_begun(); });
}

void TensorPerformer::await_reduction(int id, int buffer, bool used_at_once) {
  const OwnOperators own;
  if (alone()) {
    units_[id]->sum.add_kept(units_[id]->gradients);
  } else {
    recorder_.waits(Activity::WaitReduce, id, [&] { finish_reduction(id, buffer, used_at_once); });
  }
  recorder_.ends(Activity::Reduce, id);
}

void TensorPerformer::finish_reduction(int id, int buffer, bool used_at_once) {
  ShardedUnit& unit = *units_[id];
  unit.collectives->wait_reduce();
  if (unit.gradients.held_by_autograd()) {
    // A gradient that autograd still adds to comes late, or never.
    if (unit.sum.sum().values.is_alias_of(unit.gradients.buffer())) {
      unit.collectives->wait_sum();
      unit.sum.leave(unit.gradients.buffer());
    }
    arena_.gradients.give_away(buffer);
  } else {
    arena_.gradients.release(buffer);
  }
  unit.sum.show();
  if (!used_at_once) memory::put_away(unit.sum.values());  // else it is gone before the disk would have it
  arena_.staging.release(buffer);
  unit.gradients.close();
}

void TensorPerformer::move_gradients(int from, int to) {
  arena_.gradients.move(from, to);
  arena_.staging.move(from, to);
}

std::vector<int> TensorPerformer::end_reductions(bool everywhere, bool as_before, int buffers) {
  const OwnOperators own;
  std::vector<int> corrected = group_.reductions_end(everywhere, as_before);
  for (int unit : corrected) units_[unit]->sum.correct();
  arena_.gradients.keep(buffers);
  arena_.staging.keep(buffers);
  return corrected;
}

void TensorPerformer::await_sums() {
  const OwnOperators own;
  recorder_.waits(Activity::WaitReplicas, kNoUnit, [&] {
    for (auto& unit : units_) unit->collectives->wait_sum();
  });
}

void TensorPerformer::await_readers() {
  if (!readers_.any()) return;
  recorder_.computes_nothing();
  recorder_.waits(Activity::WaitReaders, kNoUnit, [&] { readers_.wait(); });
}

bool TensorPerformer::begin_write(int id, Readers readers) {
  const OwnOperators own;
  collectives::UnitCollectives& unit = *units_[id]->collectives;
  if (readers == Readers::Ask) return unit.begin_write(readers);
  recorder_.computes_nothing();
  return recorder_.waits(Activity::WaitReaders, kNoUnit, [&] { return unit.begin_write(readers); });
}

void TensorPerformer::publish(int id) {
  const OwnOperators own;
  units_[id]->publish();
}

void TensorPerformer::begin_all_writes() {
  const OwnOperators own;
  recorder_.computes_nothing();
  recorder_.waits(Activity::WaitReaders, kNoUnit, [&] {
    for (auto& unit : units_) unit->collectives->begin_write(Readers::Wait);
  });
  changes();
  recorder_.computes(Activity::Update);
}

void TensorPerformer::publish_all() {
  const OwnOperators own;
  recorder_.computes(Activity::Publish);
  for (auto& unit : units_) unit->publish();
  recorder_.computes_nothing();
}

void TensorPerformer::change_full(int id, Order order, const std::function<void()>& change) {
  const OwnOperators own;
  ShardedUnit& unit = *units_[id];
  const torch::Tensor buffer = unit.collectives->capabilities().into_buffer ? unit.full() : torch::Tensor();
  unit.collectives->release();
  recorder_.waits(Activity::WaitReaders, id, [&] { unit.collectives->begin_write(Readers::Wait); });
  changes();
  change();
  unit.publish();
  unit.collectives->begin_gather(buffer, order);
  unit.bind(recorder_.waits(Activity::WaitGather, id, [&] { return unit.collectives->wait_gather(); }));
}

void TensorPerformer::mark_changed() {
  for (auto& unit : units_) {
    for (auto& parameter : unit->parameters) parameter.mark_changed();
  }
  activation_budget_.step_ends();
}

void TensorPerformer::update(int id, bool early) {
  const OwnOperators own;
  ShardedUnit& unit = *units_[id];
  const std::shared_ptr<const UnitUpdate> rule = early ? early_update_.lock() : update_;
  recorder_.computes(Activity::Update, id, early ? event_began_at_ : recorder_.touched());
  changes();
  (*rule)(unit, early ? gradients_.closing_factors_of(unit) : factors_);
  recorder_.computes(Activity::Publish, id, recorder_.touched());
  unit.collectives->publish();
  recorder_.computes_nothing();
  if (early) unit.sum.give_back();
  unit.put_away();
}

}  // namespace fsdp::engine
