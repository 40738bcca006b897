// The schedule's actions, performed on buffers and collectives.
#include <utility>

#include "engine/model.h"

namespace fsdp::engine {

void Model::perform(const schedule::Actions& actions) {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  for (const schedule::Action& action : actions) perform(action);
}

void Model::perform(const schedule::Action& action) {
  using Kind = schedule::Action::Kind;
  Unit& unit = *units_[action.unit];
  switch (action.kind) {
    case Kind::Release:
      unit.collectives->release();
      unit.storage->unbind();
      if (unit.collectives->capabilities().into_buffer) arena_->full.release(action.buffer);
      return;
    case Kind::Gather:
      count_gather(unit, action.foreseen);
      return gather(action);
    case Kind::WaitGather:
      return unit.storage->bind(wait_gather(action.unit));
    case Kind::OpenGradient:
      return open_gradient(action);
    case Kind::Reduce:
      return reduce(action);
    case Kind::WaitReduce:
      return wait_reduction(action);
    case Kind::WaitBuffer: {
      const auto begun = [&] { return unit.collectives->wait_begun(); };
      return recorder_.waits(Activity::WaitReduce, action.unit, begun) ? wait_reduction(action) : set_aside(action);
    }
  }
}

void Model::count_gather(const Unit& unit, bool foreseen) {
  if (unit.layout.shards() == 1) return;
  ++communication_.gathers;
  communication_.foreseen_gathers += foreseen;
}

void Model::gather(const schedule::Action& action, collectives::Order order) {
  Unit& unit = *units_[action.unit];
  if (unit.layout.shards() > 1) recorder_.begins(Activity::Gather, action.unit);
  const collectives::Capabilities can = unit.collectives->capabilities();
  // While there is no plan to rely on, ranks tell each other what they gather: one that went another way is found at
  // once.
  if (!action.foreseen && !can.one_sided) agreement_.gathers(action.unit, begun());
  torch::Tensor buffer;
  if (can.into_buffer) buffer = arena_->full.at(action.buffer, unit.layout.full_numel(), unit.dtype());
  unit.collectives->begin_gather(buffer, order);
}

// In the form of an account.
std::vector<int64_t> Model::begun() const {
  std::vector<int64_t> account = schedule_->begun();
  account.resize(schedule_->account().size(), 0);
  return account;
}

void* Model::wait_gather(int id) {
  Unit& unit = *units_[id];
  const auto wait = [&] { return unit.collectives->wait_gather(); };
  if (unit.layout.shards() == 1) return wait();
  void* bytes = recorder_.waits(Activity::WaitGather, id, wait);
  recorder_.ends(Activity::Gather, id);
  if (std::exchange(unit.gathered_ahead, false)) count_gather(unit, /*foreseen=*/true);
  return bytes;
}

void Model::open_gradient(const schedule::Action& action) {
  piece_gradients_.check_open();
  Unit& unit = *units_[action.unit];
  if (alone()) return unit.gradients.open_alone();
  piece_gradients_.open(unit);
  const layout::GradientLayout& layout = unit.gradient_layout;
  unit.gradients.open(layout, arena_->gradients.at(action.buffer, layout.full_numel(), reduce_dtype_));
  for (LateGradient& late : unit.gradients.take_late()) write_gradient(unit, late.parameter, std::move(late.gradient));
}

void Model::reduce(const schedule::Action& action) {
  Unit& unit = *units_[action.unit];
  ++communication_.reductions;
  recorder_.begins(Activity::Reduce, action.unit);
  communication_.all_reductions += group_->size() > shards_;
  if (alone()) return;
  const torch::Tensor staging =
      arena_->staging.at(action.buffer, unit.collectives->staging_numel(unit.gradient_layout), reduce_dtype_);
  unit.collectives->begin_reduce({&unit.gradient_layout, unit.gradients.buffer(), unit.gradients.presence(), staging},
                                 unit.sum);
}

void Model::wait_reduction(const schedule::Action& action) {
  const auto wait = [&] { finish_reduction(*units_[action.unit], action.buffer); };
  alone() ? wait() : recorder_.waits(Activity::WaitReduce, action.unit, wait);
  recorder_.ends(Activity::Reduce, action.unit);
  const bool final = schedule_->complete(action.unit) && units_[action.unit]->collectives->capabilities().sums_at_once;
  if (step_.foreseen() && final) step_.reduced(action.unit);
}

void Model::finish_reduction(Unit& unit, int buffer) {
  if (alone()) return piece_gradients_.add_kept(unit);
  unit.collectives->wait_reduce();
  piece_gradients_.show(unit);
  // A gradient that autograd still adds to comes late, or never.
  unit.gradients.held_by_autograd() ? arena_->gradients.give_away(buffer) : arena_->gradients.release(buffer);
  arena_->staging.release(buffer);
  unit.gradients.close();
}

// A peer does not begin the reduction: it keeps its memory, and its place in the arena is made anew.
void Model::set_aside(const schedule::Action& action) {
  const int kept = schedule_->reduction_stalls(action.unit);
  arena_->gradients.move(action.buffer, kept);
  arena_->staging.move(action.buffer, kept);
}

}  // namespace fsdp::engine
