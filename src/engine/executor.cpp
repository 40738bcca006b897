#include "engine/executor.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "interpose/piece_storage.h"
#include "memory/mapped_tensor.h"

namespace fsdp::engine {

using collectives::Order;
using schedule::Action;

Executor::Executor(Units& units, collectives::Group& group, schedule::Schedule& schedule,
                   const schedule::StepMachine& machine, Agreement& agreement, Recorder& recorder, buffers::Arena arena)
    : units_(units),
      group_(group),
      schedule_(schedule),
      machine_(machine),
      agreement_(agreement),
      recorder_(recorder),
      arena_(std::move(arena)),
      to_host_(units.empty() ? torch::Device(torch::kCPU) : units[0]->device()),
      gathered_ahead_(units.size()) {}

void Executor::perform(const schedule::Actions& actions, std::string_view operation) {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  guarded([&] {
    for (const Action& action : actions) perform(action, operation);
  });
}

void Executor::perform(const Action& action, std::string_view operation) {
  switch (action.kind) {
    case Action::Kind::Release:
      return release(action);
    case Action::Kind::Gather:
      count_gather(*units_[action.unit], action.foreseen);
      return gather(action, Order::Common, operation);
    case Action::Kind::WaitGather:
      return units_[action.unit]->bind(wait_gather(action.unit));
    case Action::Kind::OpenGradient:
      return open_gradient(action);
    case Action::Kind::Reduce:
      return reduce(action);
    case Action::Kind::WaitReduce:
      return wait_reduction(action);
    case Action::Kind::WaitBuffer:
      return wait_buffer(action);
  }
}

void Executor::release(const Action& action) {
  ShardedUnit& unit = *units_[action.unit];
  unit.collectives->release();
  unit.unbind();
  if (unit.collectives->capabilities().into_buffer) arena_.full.release(action.buffer);
}

void Executor::count_gather(const ShardedUnit& unit, bool foreseen) {
  if (!unit.is_divided()) return;
  ++communication_.gathers;
  communication_.foreseen_gathers += foreseen;
}

void Executor::gather(const Action& action, Order order, std::string_view operation) {
  ShardedUnit& unit = *units_[action.unit];
  if (unit.collectives->capabilities().one_sided) return begin_gather(action, order);
  // Outside of plans, ranks exchange the units that they gather.
  if (!action.foreseen) {
    const schedule::Round round = agreement_.enter_round({.activity = schedule::RankActivity::Gathers,
                                                          .unit = action.unit,
                                                          .operation = std::string(operation),
                                                          .counts = schedule_.counts_so_far()});
    return take_part(round, &action);
  }
  begin_gather(action, order);
  if (order == Order::Common) agreement_.has_begun(action.unit);
}

// The watchdog does not compare gathers if ranks may begin different ones.
void Executor::begin_gather(const Action& action, Order order) {
  ShardedUnit& unit = *units_[action.unit];
  if (unit.is_divided()) recorder_.begins(Activity::Gather, action.unit);
  unit.collectives->begin_gather(buffer_for(unit, action.buffer), agreement_.in_rounds() ? Order::Any : order);
}

void Executor::take_part(const schedule::Round& round, const Action* own) {
  guarded([&] {
    if (!round.alike && agreement_.in_rounds()) {
      schedule_.ranks_differ();
      group_.ranks_differ(true);
    }
    for (int unit : round.missed) gather_for_others(unit);
    for (int unit : round.gathered) {
      own != nullptr && own->unit == unit ? begin_gather(*own, Order::Common) : gather_for_others(unit);
    }
  });
}

void Executor::all_ended_backward() {
  if (!agreement_.in_rounds()) return;
  schedule_.all_ended_backward();
  group_.ranks_differ(!schedule_.ranks_are_alike());
}

torch::Tensor Executor::buffer_for(const ShardedUnit& unit, int buffer) {
  if (!unit.collectives->capabilities().into_buffer) return {};
  return arena_.full.at(buffer, unit.layout.full_numel(), unit.dtype());
}

void* Executor::wait_gather(int id) {
  ShardedUnit& unit = *units_[id];
  const auto wait = [&] { return unit.collectives->wait_gather(); };
  if (!unit.is_divided()) return wait();
  if (agreement_.in_rounds()) await_peers(id);
  void* bytes = recorder_.waits(Activity::WaitGather, id, wait);
  recorder_.ends(Activity::Gather, id);
  if (std::exchange(gathered_ahead_[id], 0)) count_gather(unit, /*foreseen=*/true);
  return bytes;
}

// A peer that left the plan waits for this rank in a round. There the peer learns which gathers it missed.
void Executor::await_peers(int id) {
  const auto stalls = [&] { return units_[id]->collectives->gather_stalls(); };
  while (recorder_.waits(Activity::WaitGather, id, stalls)) {
    take_part(agreement_.enter_round(
        {.activity = schedule::RankActivity::Waits, .unit = id, .counts = schedule_.counts_so_far()}));
  }
}

void Executor::gather_ahead(const schedule::Actions& gathers, Order order) {
  guarded([&] {
    for (const Action& action : gathers) {
      gather(action, order);
      gathered_ahead_[action.unit] = units_[action.unit]->is_divided();
    }
  });
}

void Executor::gather_again(int id, const std::function<void()>& change) {
  ShardedUnit& unit = *units_[id];
  const torch::Tensor buffer = unit.collectives->capabilities().into_buffer ? unit.full() : torch::Tensor();
  guarded([&] {
    unit.collectives->release();
    recorder_.waits(Activity::WaitReaders, id, [&] { unit.collectives->begin_write(collectives::Readers::Wait); });
    change();
    count_gather(unit, /*foreseen=*/false);
    unit.collectives->begin_gather(buffer, agreement_.in_rounds() ? Order::Any : Order::Common);
    unit.bind(recorder_.waits(Activity::WaitGather, id, [&] { return unit.collectives->wait_gather(); }));
  });
}

// This rank may hold the unit, or be gathering it.
void Executor::gather_for_others(int id) {
  ShardedUnit& unit = *units_[id];
  count_gather(unit, /*foreseen=*/false);
  recorder_.begins(Activity::Gather, id);
  const int spare = schedule_.spare_buffer();
  const torch::Tensor buffer = buffer_for(unit, spare);
  if (unit.collectives->capabilities().joins) {
    recorder_.waits(Activity::WaitGather, id, [&] { unit.collectives->join_gather(buffer); });
    recorder_.ends(Activity::Gather, id);
  } else {
    unit.collectives->begin_gather(buffer, Order::Common);
    wait_gather(id);
    unit.collectives->release();
  }
  if (buffer.defined()) arena_.full.release(spare);
}

void Executor::open_gradient(const Action& action) {
  ShardedUnit& unit = *units_[action.unit];
  std::vector<uint8_t> trainable = unit.trainable();
  unit.gradients.expect(static_cast<int>(std::ranges::count(trainable, 1)));
  if (alone()) return unit.gradients.open_alone();
  unit.sum.open(std::move(trainable));
  if (sums_in_place(unit, action.buffer) && !arena_.gradients.has(action.buffer)) {
    const torch::Tensor idle = unit.sum.take_idle_memory();
    if (idle.defined()) arena_.gradients.take_back(action.buffer, idle);
  }
  const layout::GradientLayout& layout = unit.sum.gradient_layout();
  unit.gradients.open(layout, arena_.gradients.at(action.buffer, layout.full_numel(), unit.gradients.dtype()));
  for (LateGradient& late : unit.gradients.take_late())
    write_gradient(action.unit, late.parameter, std::move(late.gradient));
}

void Executor::write_gradient(int id, int parameter, torch::Tensor gradient) {
  ShardedUnit& unit = *units_[id];
  FSDP_CHECK_UNIT(unit.gradients.has_place(parameter), unit.name,
                  "{} was unfrozen between two backwards of no_sync scopes. Call step and zero_grad before.",
                  unit.parameters[parameter].name());
  unit.gradients.write(parameter, std::move(gradient));
}

bool Executor::sums_in_place(const ShardedUnit& unit, int buffer) const {
  return unit.collectives->capabilities().sums_in_place && !unit.is_divided() &&
         unit.gradients.dtype() == torch::kFloat32 && !arena_.gradients.is_shared(buffer);
}

void Executor::reduce(const Action& action) {
  ShardedUnit& unit = *units_[action.unit];
  ++communication_.reductions;
  recorder_.begins(Activity::Reduce, action.unit);
  communication_.all_reductions += unit.layout.shards() < group_.size();
  if (alone()) {
    if (unit.shard.device() != unit.device()) unit.gradients.bring_to_host(to_host_);
    return;
  }
  unit.gradients.settle();
  const layout::GradientLayout& layout = unit.sum.gradient_layout();
  if (sums_in_place(unit, action.buffer) && !unit.sum.has_memory()) {
    unit.sum.begin_in(unit.gradients.buffer());
    arena_.gradients.give_away(action.buffer);
  }
  unit.sum.make_memory();
  const torch::Tensor staging =
      arena_.staging.at(action.buffer, unit.collectives->staging_numel(layout), unit.gradients.dtype());
  unit.collectives->begin_reduce({&layout, unit.gradients.buffer(), unit.gradients.presence(), staging},
                                 unit.sum.sum());
}

void Executor::wait_reduction(const Action& action) {
  const auto wait = [&] { finish_reduction(action); };
  alone() ? wait() : recorder_.waits(Activity::WaitReduce, action.unit, wait);
  recorder_.ends(Activity::Reduce, action.unit);
}

void Executor::finish_reduction(const Action& action) {
  ShardedUnit& unit = *units_[action.unit];
  if (alone()) return unit.sum.add_kept(unit.gradients);
  unit.collectives->wait_reduce();
  if (unit.gradients.held_by_autograd()) {
    // A gradient that autograd still adds to comes late, or never.
    if (unit.sum.sum().values.is_alias_of(unit.gradients.buffer())) {
      unit.collectives->wait_sum();
      unit.sum.leave(unit.gradients.buffer());
    }
    arena_.gradients.give_away(action.buffer);
  } else {
    arena_.gradients.release(action.buffer);
  }
  unit.sum.show();
  // In the backward of step_in_backward() it is used at once, and then gone: the disk need not have it.
  if (machine_.early_step() != schedule::EarlyStepPhase::LastBackward) memory::put_away(unit.sum.values());
  arena_.staging.release(action.buffer);
  unit.gradients.close();
}

// A reduction that does not end before this rank goes on keeps its memory. Its place in the arena gets new memory.
void Executor::wait_buffer(const Action& action) {
  const auto wait = [&] { return units_[action.unit]->collectives->wait_begun(); };
  const collectives::Begun begun = recorder_.waits(Activity::WaitReduce, action.unit, wait);
  if (begun == collectives::Begun::Yes) return wait_reduction(action);
  const int kept = schedule_.reduction_stalls(action.unit, begun == collectives::Begun::PeerStalls);
  arena_.gradients.move(action.buffer, kept);
  arena_.staging.move(action.buffer, kept);
}

std::vector<int> Executor::reductions_end(bool everywhere) {
  const auto end = [&] { return group_.reductions_end(everywhere, agreement_.reductions_as_before()); };
  const std::vector<int> corrected = guarded(end);
  for (int unit : corrected) units_[unit]->sum.correct();
  arena_.gradients.keep(schedule_.gradient_buffers());
  arena_.staging.keep(schedule_.gradient_buffers());
  return corrected;
}

void Executor::wait_sums() {
  const auto replicated = [this](const auto& unit) { return unit->layout.shards() < group_.size(); };
  if (std::ranges::none_of(units_, replicated)) return;
  guarded([&] {
    recorder_.waits(Activity::WaitReplicas, kNoUnit, [&] {
      for (auto& unit : units_) unit->collectives->wait_sum();
    });
  });
}

}  // namespace fsdp::engine
