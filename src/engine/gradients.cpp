// The way of a gradient: from autograd into the unit's buffer, through the reduction into the shard's sum, and the end
// of that sum (docs/determinism.md).
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "collectives/presence.h"
#include "engine/model.h"

namespace fsdp::engine {

namespace {

// Whether the tensor's bytes are its own: nobody else holds it, its storage, or the tensor that it is a view of.
bool unshared(const torch::Tensor& tensor) {
  const bool sole_view = tensor.is_view() && tensor._base().use_count() == 1;
  return tensor.use_count() == 1 && tensor.storage().use_count() == (sole_view ? 2 : 1) &&
         tensor.storage().nbytes() == tensor.nbytes();
}

}  // namespace

// A unit that is used in several places would be opened by the first and wait for the last: its gradients are copied.
torch::Tensor Model::place_of_gradient(int id, int parameter) {
  std::lock_guard lock(mutex_);
  torch::NoGradGuard no_grad;
  note_mode();
  Unit& unit = *units_[id];
  if (alone() || unit.dtype() != reduce_dtype_ || !schedule_->used_once(id) || schedule_->reduced(id) ||
      schedule_->reduction_under_way(id) || closed_ || !failure_.empty()) {
    return {};
  }
  guarded([&] { perform(schedule_->gradient_begins(id)); });
  const bool taken = unit.present[parameter] || !unit.placed[parameter].expired();
  if (taken || !unit.gradient_layout.wanted()[parameter]) return {};
  auto memory = std::make_shared<const torch::Tensor>(unit.gradients);
  unit.placed[parameter] = memory;
  const torch::Tensor place = unit.gradient_view(*memory, parameter);
  return torch::from_blob(
      place.mutable_data_ptr(), place.sizes(), place.strides(), [memory](void*) {}, place.options());
}

void Model::gradient_arrives(int id, int parameter, torch::Tensor gradient) {
  // A custom function may return a sharded parameter; reading it is a touch, which takes the lock itself.
  if (interpose::UnitStorage::of(gradient)) gradient = gradient.clone();
  std::lock_guard lock(mutex_);
  torch::NoGradGuard no_grad;
  note_mode();
  Unit& unit = *units_[id];
  check_open();
  if (step_.open()) check_not_stepped({&id, 1}, "a gradient");
  unit.parameters[parameter].check_attached("backward");
  if (!failure_.empty()) throw Error(failure_);
  communication_.late_gradients += schedule_->reduced(id);
  if (schedule_->reduction_under_way(id) && stalls(unit)) {
    unit.late.emplace_back(parameter, std::move(gradient));
    return schedule_->gradient_kept(id);
  }
  guarded([&] { perform(schedule_->gradient_begins(id)); });
  write_gradient(unit, parameter, std::move(gradient));
  const auto trainable = std::count_if(unit.parameters.begin(), unit.parameters.end(),
                                       [](const auto& one) { return one.tensor().requires_grad(); });
  guarded([&] { perform(schedule_->gradient_ends(id, static_cast<int>(trainable))); });
  if (!step_.candidates().empty()) step_early(recorder_.touched());
}

void Model::check_open() {
  if (closed_ && !holds_gradients()) end_sum();
  FSDP_CHECK(!closed_,
             "a backward came after clipping or a step had ended the sum of the gradients. Call zero_grad() first.");
}

// Whether the unit's reduction ends only when this rank goes on.
bool Model::stalls(Unit& unit) {
  bool begun = true;
  guarded([&] { begun = unit.late.empty() && unit.collectives->wait_begun(); });
  return !begun;
}

// The gradient itself where it may be kept, otherwise a copy.
torch::Tensor Model::own(const torch::Tensor& gradient, const Shape& shape) const {
  if (unshared(gradient) && gradient.scalar_type() == reduce_dtype_ && gradient.strides() == shape.strides) {
    return gradient.detach();
  }
  return torch::empty_strided(shape.sizes, shape.strides, on_device(reduce_dtype_)).copy_(gradient);
}

void Model::open_gradient(const schedule::Action& action) {
  check_open();
  Unit& unit = *units_[action.unit];
  unit.present.assign(unit.parameters.size(), 0);
  unit.placed.assign(unit.parameters.size(), {});
  if (alone()) {
    unit.kept.assign(unit.parameters.size(), {});
    return;
  }
  // A sum that the user dropped by resetting a piece's grad is dropped here too.
  for (size_t i = 0; i < unit.sum.held.size(); ++i) {
    if (!parameters_[unit.first_piece + i].piece.grad().defined()) unit.sum.held[i] = 0;
  }
  lay_out_gradients(unit);
  unit.gradients = arena_->gradients.at(action.buffer, unit.gradient_layout.full_numel(), reduce_dtype_);
  for (auto& [parameter, gradient] : std::exchange(unit.late, {})) write_gradient(unit, parameter, std::move(gradient));
}

// Parameters may have been frozen or unfrozen since the last backward; what was summed up to then stays.
void Model::lay_out_gradients(Unit& unit) {
  const int rank = group_->rank();
  std::vector<uint8_t> wanted = unit.trainable();
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] |= unit.sum.held[i];
  const bool same = wanted == unit.gradient_layout.wanted();
  if (same && unit.sum.values.defined()) return;
  const layout::GradientLayout before = std::exchange(unit.gradient_layout, {unit.layout, std::move(wanted)});
  const torch::Tensor values = std::exchange(
      unit.sum.values, torch::zeros({unit.gradient_layout.shard_of(rank).numel()}, on_device(torch::kFloat32)));
  for (size_t i = 0; i < unit.sum.held.size(); ++i) {
    if (!unit.sum.held[i]) continue;
    const layout::Range from = before.piece_of(i, rank), to = unit.gradient_layout.piece_of(i, rank);
    unit.sum.values.slice(0, to.begin, to.end).copy_(values.slice(0, from.begin, from.end));
    parameters_[unit.first_piece + i].piece.mutable_grad().reset();
  }
  show_sum(unit);
}

void Model::write_gradient(Unit& unit, int parameter, torch::Tensor gradient) {
  if (gradient.layout() != torch::kStrided) gradient = gradient.to_dense();
  const bool first = !unit.present[parameter];
  FSDP_CHECK_UNIT(alone() || unit.gradient_layout.wanted()[parameter], unit.name,
                  "{} was unfrozen between two backwards of no_sync scopes. Call step and zero_grad before.",
                  unit.parameters[parameter].name());
  if (alone() && first) {
    unit.kept[parameter] = own(gradient, unit.shapes[parameter]);
    unit.present[parameter] = 1;
    return;
  }
  const torch::Tensor target = alone() ? unit.kept[parameter] : unit.gradient_view(unit.gradients, parameter);
  const bool in_place = gradient.const_data_ptr() == target.const_data_ptr();
  if (first && !in_place && !unit.placed[parameter].expired()) {
    // Of a backward inside of the one that still adds to what it wrote there: these make a sum of their own.
    const auto before =
        std::find_if(unit.late.begin(), unit.late.end(), [&](const auto& late) { return late.first == parameter; });
    if (before != unit.late.end()) {
      before->second.add_(gradient);
    } else {
      unit.late.emplace_back(parameter, own(gradient, unit.shapes[parameter]));
    }
    return;
  }
  if (!first) {
    target.add_(gradient);
  } else if (!in_place) {
    target.copy_(gradient);
  }
  unit.present[parameter] = 1;
  std::erase_if(unit.late, [&](const auto& late) {
    if (late.first == parameter) target.add_(late.second);
    return late.first == parameter;
  });
}

void Model::reduce(const schedule::Action& action) {
  Unit& unit = *units_[action.unit];
  ++communication_.reductions;
  recorder_.begins(Activity::Reduce, action.unit);
  communication_.all_reductions += group_->size() > shards_;
  if (alone()) return;
  const torch::Tensor staging =
      arena_->staging.at(action.buffer, unit.collectives->staging_numel(unit.gradient_layout), reduce_dtype_);
  std::vector<uint8_t> present = unit.present;
  for (size_t i = 0; i < present.size(); ++i) {
    if (!unit.gradient_layout.wanted()[i]) present[i] = collectives::kLeftOut;
  }
  unit.collectives->begin_reduce({&unit.gradient_layout, unit.gradients, std::move(present), staging}, unit.sum);
}

void Model::finish_reduction(Unit& unit, int buffer) {
  if (alone()) return add_kept(unit);
  unit.collectives->wait_reduce();
  show_sum(unit);
  // A gradient that autograd still adds to comes late, or never.
  const bool held = std::any_of(unit.placed.begin(), unit.placed.end(), [](const auto& one) { return !one.expired(); });
  held ? arena_->gradients.give_away(buffer) : arena_->gradients.release(buffer);
  arena_->staging.release(buffer);
  unit.gradients = torch::Tensor();
}

// A peer does not begin the reduction: it keeps its memory, and its place in the arena is made anew.
void Model::set_aside(const schedule::Action& action) {
  const int kept = schedule_->reduction_stalls(action.unit);
  arena_->gradients.move(action.buffer, kept);
  arena_->staging.move(action.buffer, kept);
}

void Model::wait_sums() {
  if (group_->size() == shards_) return;
  recorder_.waits(Activity::WaitReplicas, kNoUnit, [&] {
    for (auto& unit : units_) unit->collectives->wait_sum();
  });
}

// Makes what the sum holds visible as the pieces' gradients.
void Model::show_sum(Unit& unit) {
  for (size_t i = 0; i < unit.sum.held.size(); ++i) {
    torch::Tensor& piece = parameters_[unit.first_piece + i].piece;
    if (!unit.sum.held[i] || piece.grad().defined()) continue;
    const layout::Range range = unit.gradient_layout.piece_of(i, group_->rank());
    show(piece, unit.sum.values.slice(0, range.begin, range.end));
  }
}

void Model::show(torch::Tensor& piece, const torch::Tensor& gradient) {
  piece.mutable_grad() = interpose::watched(gradient, interpose::PieceStorage::Holds::Gradients, link_);
}

void Model::add_kept(Unit& unit) {
  for (size_t i = 0; i < unit.kept.size(); ++i) {
    if (!unit.kept[i].defined()) continue;
    torch::Tensor& piece = parameters_[unit.first_piece + i].piece;
    const torch::Tensor flat = unit.kept[i].as_strided({unit.kept[i].numel()}, {1});
    piece.grad().defined() ? void(piece.mutable_grad().add_(flat)) : show(piece, flat.to(torch::kFloat32));
  }
  unit.kept.clear();
}

bool Model::trainable(size_t parameter) const {
  const auto behind = std::upper_bound(units_.begin(), units_.end(), parameter,
                                       [](size_t index, const auto& unit) { return index < unit->first_piece; });
  const Unit& unit = **std::prev(behind);
  return unit.parameters[parameter - unit.first_piece].tensor().requires_grad();
}

bool Model::holds_gradients() const {
  return std::any_of(parameters_.begin(), parameters_.end(),
                     [](const ShardedParameter& parameter) { return parameter.piece.grad().defined(); });
}

void Model::close_gradients() {
  std::lock_guard lock(mutex_);
  note_mode();
  if (!failure_.empty()) throw Error(failure_);
  FSDP_CHECK(!step_.begun(),
             "this step's optimizer ran inside the backward (step_in_backward): gradients are gone, and cannot be "
             "clipped, unscaled or read any more. Leave step_in_backward() out of steps that need them.");
  close();
}

void Model::close() {
  reduce_open();
  FSDP_CHECK(no_sync_ == 0,
             "the gradients are still each rank's own inside no_sync(). End the scope before clipping or a step.");
  FSDP_CHECK(holds_gradients() || step_.stepped_any(),
             "there is no gradient to clip or to step with. Call backward first.");
  if (closed_) return;
  closed_ = true;
  factors_ = closing_factors();
}

std::vector<float> Model::closing_factors() const {
  const auto factor = static_cast<float>(1.0 / divisor_);
  return factor == 1.0f ? std::vector<float>{} : std::vector{factor};
}

// What the backwards of no_sync scopes left with each rank, where none outside of them followed.
void Model::reduce_open() {
  if (no_sync_ > 0 || !unreduced_) return;
  guarded([&] {
    const std::vector<int64_t> account = agree_on_account();
    reduce_rest(account);
    perform(schedule_->open_ends());
    wait_sums();
    group_->reductions_end(/*everywhere=*/true);
  });
  unreduced_ = false;
}

void Model::begin_no_sync() {
  std::lock_guard lock(mutex_);
  ++no_sync_;
  schedule_->set_local(true);
}

void Model::end_no_sync() noexcept {
  std::lock_guard lock(mutex_);
  schedule_->set_local(--no_sync_ > 0);
}

void Model::scale_gradients(float factor) {
  if (factor != 1.0f) factors_.push_back(factor);
}

std::vector<float> Model::take_factors() { return std::exchange(factors_, {}); }

void Model::scale_now() {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  for (float factor : take_factors()) {
    for (auto& parameter : parameters_) {
      if (parameter.piece.grad().defined()) parameter.piece.mutable_grad().mul_(factor);
    }
  }
}

void Model::zero_grad() {
  std::lock_guard lock(mutex_);
  note_mode();  // one that threw leaves nothing behind
  check_no_step_begun("zero_grad");
  if (unreduced_) abandon_backward();
  unreduced_ = false;
  for (auto& parameter : parameters_) parameter.piece.mutable_grad().reset();
  for (auto& unit : units_) std::fill(unit->sum.held.begin(), unit->sum.held.end(), 0);
  end_sum();
}

void Model::end_sum() {
  closed_ = false;
  factors_.clear();
}

void Model::set_gradient_divisor(double divisor) {
  FSDP_CHECK(divisor > 0 && std::isfinite(divisor), "set_gradient_divisor: found {}, expected a finite positive number",
             divisor);
  check_step_ended("set_gradient_divisor");
  divisor_ = divisor;
}

}  // namespace fsdp::engine
