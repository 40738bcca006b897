#include "schedule/optimizer_step.h"

#include <algorithm>
#include <string>
#include <vector>

#include "schedule/refuse.h"

namespace fsdp::schedule {

void OptimizerStep::step(Rule rule) {
  const bool begun = machine_.early_step() == EarlyStepPhase::Stepping;
  if (begun && rule_ != rule) refuse(Misuse::OtherStepBegun, "");
  const std::vector<bool> stepped = stepped_units();
  performer_.begin_updates();
  changes_.release_all();
  executor_.guarded([&] { performer_.await_readers(); });
  const int count = facts_.count();
  if (count > 0) performer_.read_ahead(0);
  for (UnitId unit = 0; unit < count; ++unit) {
    if (unit + 1 < count && !stepped[unit + 1]) performer_.read_ahead(unit + 1);
    if (!stepped[unit]) {
      executor_.guarded([&] {
        performer_.begin_write(unit, begun ? Readers::WaitInAnyOrder : Readers::Wait);
        performer_.update(unit, /*early=*/false);
      });
    }
    gather_next(unit, /*allowed=*/true);
  }
  end();
  if (!begun) return;
  sum_.give_back();
  sum_.drop();
}

// Where a step has begun inside of the backward, ranks may have stepped other units by now.
void OptimizerStep::gather_next(UnitId unit, bool allowed) {
  const bool early = machine_.early_step() != EarlyStepPhase::None;
  executor_.gather_ahead(schedule_.shard_changed(unit, allowed), early ? Order::Any : Order::Common);
}

void OptimizerStep::open_scope(Rule rule) {
  machine_.open_last_backward();
  rule_ = rule;
}

// A scope in which no backward has left a unit has begun nothing.
void OptimizerStep::close_scope() noexcept {
  if (machine_.early_step() == EarlyStepPhase::LastBackward && !schedule_.left_any()) end();
}

void OptimizerStep::forget(Rule rule) noexcept {
  if (machine_.early_step() == EarlyStepPhase::None || rule_ != rule) return;
  schedule_.left_any() ? break_off("the optimizer of step_in_backward() was destroyed") : end();
}

void OptimizerStep::reduced(const Actions& actions) {
  if (machine_.early_step() != EarlyStepPhase::LastBackward) return;
  for (const Action& action : actions) {
    if (action.kind != Action::Kind::WaitReduce && action.kind != Action::Kind::WaitBuffer) continue;
    if (!schedule_.progress(action.unit).complete()) continue;
    candidates_.push_back(action.unit);
    performer_.read_ahead(action.unit);
  }
}

void OptimizerStep::step_candidates() {
  if (rule_ == nullptr) return;
  for (UnitId unit : std::vector(candidates_)) {
    if (!performer_.sum_is_complete(unit)) continue;
    if (schedule_.may_leave(unit)) executor_.perform(schedule_.leave(unit));
    if (!schedule_.progress(unit).left()) continue;
    const bool peers_left = executor_.guarded([&] { return performer_.begin_write(unit, Readers::Ask); });
    if (!schedule_.progress(unit).may_step(peers_left)) continue;
    performer_.await_readers();
    executor_.guarded([&] { performer_.update(unit, /*early=*/true); });
    std::erase(candidates_, unit);
    gather_next(unit, facts_.any_order);
  }
}

std::vector<bool> OptimizerStep::stepped_units() const {
  std::vector<bool> stepped(facts_.units.size());
  for (UnitId unit = 0; unit < facts_.count(); ++unit) stepped[unit] = schedule_.progress(unit).stepped();
  return stepped;
}

void OptimizerStep::refuse_stepped(std::span<const UnitId> units, const char* event) const {
  for (UnitId unit : units) {
    if (schedule_.progress(unit).left()) refuse(Misuse::UnitStepped, event, facts_.units[unit]);
  }
}

// A unit of which a peer has another gradient is reduced once more: it, and what may wait for it, is left to `step`.
void OptimizerStep::backward_finishes(const UnitCounts& counts) {
  const UnitCounts own = schedule_.counts_so_far();
  const auto has_more = [&](UnitId unit) { return counts[unit].reductions > own[unit].reductions; };
  if (std::ranges::any_of(candidates_, has_more)) candidates_.clear();
  // The peers have come to the end, too, and so have left what they were to leave.
  step_early();
}

// A backward in which no gradient came was of something else, as a gradient penalty's is.
void OptimizerStep::backward_ended(bool had_gradients, std::optional<UnitId> changed_too_early) {
  if (!had_gradients) return;
  if (machine_.early_step() == EarlyStepPhase::LastBackward) machine_.begin_stepping();
  candidates_.clear();
  if (!changed_too_early) return;
  break_off("a backward in step_in_backward() used a unit otherwise than the last one did,");
  throw_error(message_prefix(facts_.units[*changed_too_early]) +
              "a rank has a gradient of the unit that came after the unit was stepped inside this backward. Leave "
              "step_in_backward() out of steps that use units otherwise than the last one did. Load a checkpoint.");
}

void OptimizerStep::backward_abandoned() {
  candidates_.clear();
  if (machine_.early_step() == EarlyStepPhase::LastBackward && schedule_.left_any())
    break_off("a backward in step_in_backward() threw");
}

void OptimizerStep::break_off(const char* how) {
  machine_.break_step(how);
  rule_ = nullptr;
  candidates_.clear();
}

void OptimizerStep::end() {
  machine_.end_step();
  candidates_.clear();
}

// Every rank publishes each unit once per step. A unit that was not stepped is as it was: the caller overwrites all.
void OptimizerStep::end_broken_step(Peers& peers) {
  const int64_t broken[] = {machine_.early_step() == EarlyStepPhase::Broken};
  const auto all = executor_.guarded([&] { return peers.all_gather(broken, "loads a checkpoint"); });
  if (std::ranges::none_of(all, [](const auto& one) { return one[0] != 0; })) return;
  const std::vector<bool> stepped = stepped_units();
  end_early_gathers(peers);
  executor_.perform(schedule_.shards_change());
  for (UnitId unit = 0; unit < facts_.count(); ++unit) {
    if (stepped[unit]) continue;
    executor_.guarded([&] {
      performer_.begin_write(unit, Readers::WaitInAnyOrder);
      performer_.publish(unit);
    });
  }
  end();
  sum_.drop();
}

// A unit that one rank has gathered early, and will not use, waits for the others.
void OptimizerStep::end_early_gathers(Peers& peers) {
  std::vector<int64_t> early;
  for (UnitId unit = 0; unit < facts_.count(); ++unit) early.push_back(schedule_.progress(unit).gathered_next());
  executor_.guarded([&] {
    const auto all = peers.all_gather(early, "loads a checkpoint");
    for (UnitId unit = 0; unit < facts_.count(); ++unit) {
      const bool anywhere = std::ranges::any_of(all, [unit](const auto& one) { return one[unit] != 0; });
      if (anywhere && early[unit] == 0 && !facts_.one_sided)
        performer_.gather_for_peers(unit, schedule_.spare_buffer());
    }
  });
}

}  // namespace fsdp::schedule
