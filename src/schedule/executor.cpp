#include "schedule/executor.h"

#include <string>

namespace fsdp::schedule {

void Executor::perform(const Actions& actions, std::string_view operation) {
  guarded([&] {
    for (const Action& action : actions) perform(action, operation);
  });
}

void Executor::perform(const Action& action, std::string_view operation) {
  switch (action.kind) {
    case Action::Kind::Release:
      return performer_.release(action.unit, action.buffer);
    case Action::Kind::Gather:
      count_gather(action.foreseen);
      return gather(action, Order::Common, operation);
    case Action::Kind::WaitGather:
      return await_gather(action.unit);
    case Action::Kind::OpenGradient:
      return performer_.open_gradients(action.unit, action.buffer);
    case Action::Kind::Reduce:
      return reduce(action);
    case Action::Kind::WaitReduce:
      return await_reduction(action);
    case Action::Kind::WaitBuffer:
      return await_buffer(action);
  }
}

void Executor::count_gather(bool foreseen) {
  if (!facts_.divided()) return;
  ++counts_.gathers;
  counts_.foreseen_gathers += foreseen;
}

// Outside of plans, ranks exchange the units that they gather.
void Executor::gather(const Action& action, Order order, std::string_view operation) {
  if (!facts_.one_sided && !action.foreseen) {
    enter_round({.activity = RankActivity::Gathers,
                 .unit = action.unit,
                 .operation = std::string(operation),
                 .counts = schedule_.counts_so_far()},
                &action);
    return;
  }
  performer_.gather(action.unit, action.buffer, order_of(order));
  if (!facts_.one_sided && order == Order::Common) agreement_.has_begun(action.unit);
}

Round Executor::enter_round(RankReport report, const Action* own) {
  return guarded([&] {
    Round round = agreement_.enter_round(std::move(report));
    take_part(round, own);
    return round;
  });
}

void Executor::take_part(const Round& round, const Action* own) {
  if (!round.alike && agreement_.in_rounds()) {
    schedule_.ranks_differ();
    peers_.ranks_differ(true);
  }
  for (UnitId unit : round.missed) gather_for_peers(unit);
  for (UnitId unit : round.gathered) {
    if (own != nullptr && own->unit == unit) {
      performer_.gather(unit, own->buffer, order_of(Order::Common));
    } else {
      gather_for_peers(unit);
    }
  }
}

void Executor::gather_for_peers(UnitId unit) {
  count_gather(/*foreseen=*/false);
  performer_.gather_for_peers(unit, schedule_.spare_buffer());
}

void Executor::all_ended_backward() {
  if (!agreement_.in_rounds()) return;
  schedule_.all_ended_backward();
  peers_.ranks_differ(!schedule_.ranks_are_alike());
}

void Executor::await_gather(UnitId unit) {
  if (facts_.divided() && agreement_.in_rounds()) await_peers(unit);
  performer_.await_gather(unit);
  if (schedule_.set_begun_for_next(unit, false)) count_gather(/*foreseen=*/true);
}

// A peer that left the plan waits for this rank in a round. There the peer learns which gathers it missed.
void Executor::await_peers(UnitId unit) {
  while (performer_.gather_stalls(unit))
    enter_round({.activity = RankActivity::Waits, .unit = unit, .counts = schedule_.counts_so_far()});
}

void Executor::gather_ahead(const Actions& gathers, Order order) {
  guarded([&] {
    for (const Action& action : gathers) {
      gather(action, order);
      schedule_.set_begun_for_next(action.unit, true);
    }
  });
}

void Executor::change_full(UnitId unit, const std::function<void()>& change) {
  guarded([&] {
    count_gather(/*foreseen=*/false);
    performer_.change_full(unit, order_of(Order::Common), change);
  });
}

void Executor::reduce(const Action& action) {
  ++counts_.reductions;
  counts_.all_reductions += facts_.replicated();
  performer_.reduce(action.unit, action.buffer);
}

void Executor::await_reduction(const Action& action) {
  const bool used_at_once = machine_.early_step() == EarlyStepPhase::LastBackward;
  performer_.await_reduction(action.unit, action.buffer, used_at_once);
}

// A reduction that does not end before this rank goes on keeps its memory. Its place gets new memory.
void Executor::await_buffer(const Action& action) {
  const Begun begun = performer_.has_begun(action.unit);
  if (begun == Begun::Yes) return await_reduction(action);
  performer_.move_gradients(action.buffer, schedule_.reduction_stalls(action.unit, begun == Begun::PeerStalls));
}

bool Executor::reduction_stalls(UnitId unit) {
  return guarded([&] { return performer_.has_begun(unit) != Begun::Yes; });
}

std::vector<UnitId> Executor::end_reductions(bool everywhere) {
  return guarded([&] {
    return performer_.end_reductions(everywhere, agreement_.reductions_as_before(), schedule_.gradient_buffers());
  });
}

void Executor::await_sums() {
  if (facts_.replicated() && facts_.count() > 0) guarded([&] { performer_.await_sums(); });
}

}  // namespace fsdp::schedule
