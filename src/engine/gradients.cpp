// The way of a gradient from autograd into the unit's buffer.
#include <algorithm>
#include <utility>

#include "base/error.h"
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

// Whether the unit's reduction ends only when this rank goes on.
bool Model::stalls(Unit& unit) {
  bool begun = true;
  guarded([&] { begun = unit.late.empty() && unit.collectives->wait_begun(); });
  return !begun;
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

// The gradient itself where it may be kept, otherwise a copy.
torch::Tensor Model::own(const torch::Tensor& gradient, const Shape& shape) const {
  if (unshared(gradient) && gradient.scalar_type() == reduce_dtype_ && gradient.strides() == shape.strides) {
    return gradient.detach();
  }
  return torch::empty_strided(shape.sizes, shape.strides, on_device(reduce_dtype_)).copy_(gradient);
}

}  // namespace fsdp::engine
