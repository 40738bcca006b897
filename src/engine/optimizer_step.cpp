#include "engine/optimizer_step.h"

#include <algorithm>

#include "engine/refuse.h"
#include "engine/whole_unit.h"
#include "interpose/piece_storage.h"

namespace fsdp::engine {

using collectives::Order;
using collectives::Readers;
using schedule::EarlyStepPhase;
using schedule::Misuse;

OptimizerStep::OptimizerStep(Executor& executor, Units& units, schedule::Schedule& schedule,
                             schedule::StepMachine& machine, Recorder& recorder, ModelGradients& gradients,
                             ShardWriter& writer)
    : executor_(executor),
      units_(units),
      schedule_(schedule),
      machine_(machine),
      recorder_(recorder),
      gradients_(gradients),
      writer_(writer),
      early_(units.size()) {}

void OptimizerStep::step(const std::shared_ptr<const UnitUpdate>& update) {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  const bool begun = machine_.early_step() == EarlyStepPhase::Stepping;
  if (begun && update_.lock() != update) refuse(Misuse::OtherStepBegun, "");
  const GradientFactors factors = gradients_.factors_for_use();
  writer_.release_all();
  writer_.wait_for_readers();
  const int count = static_cast<int>(units_.size());
  if (count > 0) units_[0]->read_ahead();
  for (int id = 0; id < count; ++id) {
    if (id + 1 < count && !early_.has_stepped(id + 1)) units_[id + 1]->read_ahead();
    if (!early_.has_stepped(id)) {
      collectives::UnitCollectives& unit = *units_[id]->collectives;
      recorder_.computes_nothing();
      executor_.guarded([&] {
        recorder_.waits(Activity::WaitReaders, kNoUnit,
                        [&] { unit.begin_write(begun ? Readers::WaitInAnyOrder : Readers::Wait); });
      });
      write(id, *update, factors, recorder_.touched());
      units_[id]->put_away();
    }
    gather_next(id, /*allowed=*/true);
  }
  recorder_.computes_nothing();
  end();
  if (!begun) return;
  for (auto& unit : units_) unit->sum.give_back();
  gradients_.drop();
}

// The work before was computed until then.
void OptimizerStep::write(int id, const UnitUpdate& update, const GradientFactors& factors, int64_t computed_until) {
  recorder_.computes(Activity::Update, id, computed_until);
  executor_.guarded([&] {
    writer_.changes();
    update(*units_[id], factors);
    recorder_.computes(Activity::Publish, id, recorder_.touched());
    units_[id]->collectives->publish();
  });
}

// Where a step has begun inside of the backward, ranks may have stepped other units by now.
void OptimizerStep::gather_next(int id, bool allowed) {
  const bool early = machine_.early_step() != EarlyStepPhase::None;
  executor_.gather_ahead(schedule_.shard_changed(id, allowed), early ? Order::Any : Order::Common);
}

void OptimizerStep::open_scope(std::weak_ptr<const UnitUpdate> update) {
  machine_.open_last_backward();
  update_ = std::move(update);
}

// Without a backward, or with none that stepped a unit, nothing has begun.
void OptimizerStep::close_scope() noexcept {
  if (machine_.early_step() == EarlyStepPhase::LastBackward && !early_.left_any()) end();
}

void OptimizerStep::forget(const std::shared_ptr<const UnitUpdate>& update) noexcept {
  if (machine_.early_step() == EarlyStepPhase::None || update_.lock() != update) return;
  early_.left_any() ? break_off("the optimizer of step_in_backward() was destroyed") : end();
}

void OptimizerStep::reduced(const schedule::Actions& actions) {
  if (machine_.early_step() != EarlyStepPhase::LastBackward) return;
  using Kind = schedule::Action::Kind;
  for (const schedule::Action& action : actions) {
    if (action.kind != Kind::WaitReduce && action.kind != Kind::WaitBuffer) continue;
    if (!schedule_.complete(action.unit)) continue;
    early_.reduced(action.unit);
    units_[action.unit]->read_ahead();
  }
}

void OptimizerStep::step_candidates(int64_t touched) {
  const std::shared_ptr<const UnitUpdate> update = update_.lock();
  if (!update) return;
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  for (int id : std::vector(early_.candidates())) {
    collectives::UnitCollectives& unit = *units_[id]->collectives;
    if (!unit.sum_is_complete()) continue;
    if (!early_.has_left(id) && !leave(id)) continue;
    if (!executor_.guarded([&] { return unit.begin_write(Readers::Ask); })) continue;
    writer_.wait_for_readers();
    write(id, *update, gradients_.closing_factors_of(*units_[id]), touched);
    recorder_.computes_nothing();
    units_[id]->sum.give_back();
    units_[id]->put_away();
    early_.stepped(id);
    gather_next(id, unit.capabilities().any_order);
  }
}

bool OptimizerStep::leave(int id) {
  if (!schedule_.done_with(id)) return false;
  executor_.perform(schedule_.release_early(id));
  early_.leave(id);
  return true;
}

void OptimizerStep::refuse_stepped(std::span<const int> units, const char* event) const {
  for (int unit : units) {
    if (early_.has_left(unit)) refuse(Misuse::UnitStepped, event, units_[unit]->name);
  }
}

// A unit of which a peer has another gradient is reduced once more: it, and what may wait for it, is left to `step`.
void OptimizerStep::backward_finishes(const schedule::UnitCounts& counts) {
  const schedule::UnitCounts own = schedule_.counts_so_far();
  const auto has_more = [&](int unit) { return counts[unit].reductions > own[unit].reductions; };
  if (std::ranges::any_of(early_.candidates(), has_more)) early_.forget_candidates();
  // The peers have come to the end, too, and so have left what they were to leave.
  step_early(recorder_.touched());
}

// A backward in which no gradient came was of something else, as a gradient penalty's is.
void OptimizerStep::backward_ended(bool had_gradients, std::optional<int> changed_too_early) {
  if (!had_gradients) return;
  if (machine_.early_step() == EarlyStepPhase::LastBackward) machine_.begin_stepping();
  early_.forget_candidates();
  if (!changed_too_early) return;
  break_off("a backward in step_in_backward() used a unit otherwise than the last one did,");
  throw_error(message_prefix(units_[*changed_too_early]->name) +
              "a rank has a gradient of the unit that came after the unit was stepped inside this backward. Leave "
              "step_in_backward() out of steps that use units otherwise than the last one did. Load a checkpoint.");
}

void OptimizerStep::backward_abandoned() {
  early_.forget_candidates();
  if (machine_.early_step() == EarlyStepPhase::LastBackward && early_.left_any())
    break_off("a backward in step_in_backward() threw");
}

void OptimizerStep::break_off(const char* how) {
  machine_.break_step(how);
  update_.reset();
  early_.forget_candidates();
}

void OptimizerStep::end() {
  machine_.end_step();
  early_.reset();
}

// Every rank publishes each unit once per step. A unit that was not stepped is as it was: the caller overwrites all.
void OptimizerStep::end_broken_step(collectives::Group& group) {
  const auto is_broken = [](const torch::Tensor& one) { return one.item<bool>(); };
  const torch::Tensor broken = torch::tensor(machine_.early_step() == EarlyStepPhase::Broken);
  const auto all = executor_.guarded([&] { return group.all_gather(broken, "loads a checkpoint"); });
  if (std::ranges::none_of(all, is_broken)) return;
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  end_early_gathers(group);
  executor_.perform(schedule_.shards_change());
  for (int id = 0; id < static_cast<int>(units_.size()); ++id) {
    if (early_.has_stepped(id)) continue;
    executor_.guarded([&] {
      units_[id]->collectives->begin_write(Readers::WaitInAnyOrder);
      units_[id]->publish();
    });
  }
  end();
  gradients_.drop();
}

// A unit that one rank has gathered early, and will not use, waits for the others.
void OptimizerStep::end_early_gathers(collectives::Group& group) {
  const auto count = static_cast<int64_t>(units_.size());
  torch::Tensor early = torch::zeros({count}, torch::kUInt8);
  for (int id = 0; id < count; ++id) early[id] = schedule_.gathered_early(id);
  torch::Tensor anywhere = torch::zeros_like(early);
  executor_.guarded([&] {
    for (const torch::Tensor& one : group.all_gather(early, "loads a checkpoint")) anywhere |= one;
    for (int id = 0; id < count; ++id) {
      ShardedUnit& unit = *units_[id];
      if (schedule_.gathered_early(id) || !anywhere[id].item<bool>() || unit.collectives->capabilities().one_sided)
        continue;
      gather_whole(unit, Order::Any);
    }
  });
}

}  // namespace fsdp::engine
