// Steps, and those that begin while the backward still runs: each unit's shard is updated and published as soon as its
// gradients are reduced and no rank needs the old values.
//
// A rank *leaves* a unit when its backward, which has gone as the last one did, is done with it, and writes its shard
// when its peers have left the unit, too. Nobody waits for that: what is not written by the end of the backward is left
// to the optimizer's step(). So ranks may step other units early, and the result is the same. A step whose backward
// throws, or whose optimizer goes, when some units were stepped, has broken off: nothing but a load goes on from there.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/model.h"

namespace fsdp::engine {

void Model::open_step_in_backward(std::weak_ptr<const UnitUpdate> update) {
  std::lock_guard lock(mutex_);
  note_mode();
  if (!failure_.empty()) throw Error(failure_);
  FSDP_CHECK(!step_.open(),
             "step_in_backward: found such a scope open, or its step not ended. Call the optimizer's step() after each "
             "backward in a scope, and open one scope at a time.");
  FSDP_CHECK(!backward_.open(), "step_in_backward: found a backward under way. Open the scope before it.");
  step_.open(std::move(update));
}

void Model::close_step_in_backward() noexcept {
  std::lock_guard lock(mutex_);
  step_.close();
}

bool Model::steps_in_backward() const {
  std::lock_guard lock(mutex_);
  return step_.foreseen();
}

void Model::check_no_step_begun(std::string_view what) const {
  if (step_.broken()) throw Error(step_.why_broken());
  FSDP_CHECK(!step_.begun(),
             "{} came in the midst of a step, which has begun inside the backward (step_in_backward). Call the "
             "optimizer's step() first.",
             what);
}

void Model::check_step_ended(std::string_view what) const {
  std::lock_guard lock(mutex_);
  check_no_step_begun(what);
}

void Model::check_not_stepped(std::span<const int> units, const char* event) const {
  for (int unit : units) {
    FSDP_CHECK_UNIT(!step_.begun(), units_[unit]->name,
                    "{} came in the midst of a step, which has begun inside the backward. A scope of "
                    "step_in_backward() holds for one backward, the last of its step: call the optimizer's step() "
                    "after it.",
                    event);
    FSDP_CHECK_UNIT(!step_.has_left(unit), units_[unit]->name,
                    "{} came after the unit was stepped inside this backward, which uses it otherwise than the last "
                    "one did. Leave step_in_backward() out of such steps.",
                    event);
  }
}

// A peer may have a gradient that came after it had begun the unit's reduction.
void Model::check_reduced_once(std::span<const int64_t> account) const {
  if (!step_.stepped_any()) return;
  const std::vector<int64_t> own = schedule_->begun();
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    FSDP_CHECK_UNIT(!step_.has_stepped(static_cast<int>(unit)) || account[unit] <= own[unit], units_[unit]->name,
                    "another rank has a gradient of the unit that came after the unit was stepped inside this "
                    "backward. Leave step_in_backward() out of steps that use units otherwise than the last one did.");
  }
}

void Model::step_early(int64_t touched) {
  const std::shared_ptr<const UnitUpdate> update = step_.update();
  if (!update) return;
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  const std::vector<float> factors = piece_gradients_.closing_factors();
  guarded([&] {
    for (int id : std::vector(step_.candidates())) {
      if (!step_.has_left(id) && !leave(id)) continue;
      if (!units_[id]->collectives->try_begin_write()) continue;
      piece_gradients_.allow_access(*units_[id]);
      write(id, *update, factors, touched);
      recorder_.computes_nothing();
      drop_gradients(*units_[id]);
      step_.stepped(id);
      if (units_[id]->collectives->gathers_in_any_order()) gather_next(id);
    }
  });
}

bool Model::leave(int id) {
  if (!schedule_->done_with(id)) return false;
  perform(schedule_->give_up(id));
  step_.leave(id);
  return true;
}

void Model::step_unit(int id, const UnitUpdate& update, std::span<const float> factors) {
  collectives::UnitCollectives& unit = *units_[id]->collectives;
  recorder_.computes_nothing();
  recorder_.waits(Activity::WaitReaders, kNoUnit,
                  [&] { step_.begun() ? unit.begin_write_in_any_order() : unit.begin_write(); });
  write(id, update, factors, recorder_.touched());
}

// What came before was computed until then.
void Model::write(int id, const UnitUpdate& update, std::span<const float> factors, int64_t computed_until) {
  Unit& unit = *units_[id];
  recorder_.computes(Activity::Update, id, computed_until);
  update(unit, factors);
  recorder_.computes(Activity::Publish, id, recorder_.touched());
  unit.collectives->publish();
}

void Model::drop_gradients(Unit& unit) {
  piece_gradients_.drop(unit);
  unit.sum.values = torch::Tensor();
}

void Model::forget_update(const std::shared_ptr<const UnitUpdate>& update) noexcept {
  std::lock_guard lock(mutex_);
  if (!step_.open() || step_.update() != update) return;
  step_.left_any() ? break_off_step("the optimizer of step_in_backward() was destroyed") : step_.end();
}

void Model::break_off_step(std::string_view how) {
  step_.break_off(fmt::format(
      "{}{} after some units had been stepped: the parameters are neither those of the step before nor those of this "
      "one. Load a checkpoint.",
      message_prefix(), how));
}

// Where one rank's step broke off, another's may have stepped nothing.
void Model::begin_load() {
  {
    std::lock_guard lock(mutex_);
    check_no_full_scope("a load");
    note_backward();
    guarded([&] {
      const auto all = group_->all_gather(torch::tensor(int64_t{step_.broken()}), "loads a checkpoint");
      const auto broken = [](const torch::Tensor& one) { return one.item<int64_t>() != 0; };
      if (std::any_of(all.begin(), all.end(), broken)) end_broken_step();
    });
  }
  begin_write();
}

// Every rank publishes each unit once a step. A unit that was not stepped is as it was: the caller overwrites all.
void Model::end_broken_step() {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  end_early_gathers();
  perform(schedule_->shards_change());
  for (int id = 0; id < static_cast<int>(units_.size()); ++id) {
    if (step_.has_stepped(id)) continue;
    units_[id]->collectives->begin_write_in_any_order();
    publish(*units_[id]);
  }
  step_.end();
  drop_all_gradients();
}

void Model::step(const std::shared_ptr<const UnitUpdate>& update) {
  std::lock_guard lock(mutex_);
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  check_no_full_scope("a step");
  note_mode();
  if (!failure_.empty()) throw Error(failure_);
  const bool begun = step_.begun();
  FSDP_CHECK(!begun || step_.update() == update,
             "step: another optimizer has begun this step inside the backward (step_in_backward). Call its step().");
  close();
  const std::vector<float> factors = take_factors();
  release_all();
  guarded([&] {
    for (int id = 0; id < static_cast<int>(units_.size()); ++id) {
      if (!step_.has_stepped(id)) step_unit(id, *update, factors);
      gather_next(id);
    }
  });
  recorder_.computes_nothing();
  link_->changed = true;
  step_.end();
  if (!begun) return;
  for (auto& unit : units_) drop_gradients(*unit);
  piece_gradients_.reopen();
}

}  // namespace fsdp::engine
