#include "engine/unit_gradients.h"

#include <ATen/ops/_foreach_copy.h>

#include <algorithm>

#include "base/checked.h"
#include "collectives/presence.h"

namespace fsdp::engine {

namespace {

// True if the tensor's bytes are its own: there is no other holder of it, its storage, or its base tensor.
bool unshared(const torch::Tensor& tensor) {
  const bool sole_view = tensor.is_view() && tensor._base().use_count() == 1;
  return tensor.use_count() == 1 && tensor.storage().use_count() == (sole_view ? 2 : 1) &&
         tensor.storage().nbytes() == tensor.nbytes();
}

}  // namespace

void UnitGradients::open(const layout::GradientLayout& layout, torch::Tensor buffer) {
  parameters_.assign(shapes_.size(), {});
  layout_ = &layout;
  buffer_ = std::move(buffer);
}

void UnitGradients::open_alone() { parameters_.assign(shapes_.size(), {}); }

torch::Tensor UnitGradients::place_of(int parameter) {
  ParameterGradient& one = parameters_[parameter];
  if (one.present || !one.placed.expired() || !has_place(parameter)) return {};
  auto memory = std::make_shared<const torch::Tensor>(buffer_);
  one.placed = memory;
  const torch::Tensor place = view(parameter);
  return torch::from_blob(
      place.mutable_data_ptr(), place.sizes(), place.strides(), [memory](void*) {}, place.options());
}

void UnitGradients::write(int parameter, torch::Tensor gradient) {
  if (gradient.layout() != torch::kStrided) gradient = gradient.to_dense();
  ParameterGradient& one = parameters_[parameter];
  const bool first = !one.present;
  if (first && may_wait(parameter, gradient)) {
    one.waiting = std::move(gradient);
    one.present = true;
    return;
  }
  if (one.waiting.defined()) settle();
  if (first && !layout_) {
    one.kept = own(gradient, shapes_[parameter]);
    one.present = true;
    return;
  }
  const torch::Tensor target = layout_ ? view(parameter) : one.kept;
  const bool in_place = gradient.const_data_ptr() == target.const_data_ptr();
  // Gradients of a backward inside another one that still adds to its writes there: these make a sum of their own.
  if (first && !in_place && !one.placed.expired()) return add_late(parameter, gradient);
  if (!first) {
    target.add_(gradient);
  } else if (!in_place) {
    target.copy_(gradient);
  }
  one.present = true;
  std::erase_if(late_, [&](const LateGradient& late) {
    if (late.parameter == parameter) target.add_(late.gradient);
    return late.parameter == parameter;
  });
}

// True if no other tensor has the gradient's bytes, and the parameter has no other gradient.
bool UnitGradients::may_wait(int parameter, const torch::Tensor& gradient) const {
  const ParameterGradient& one = parameters_[parameter];
  if (gradient.is_cpu() || !one.placed.expired() || !unshared(gradient)) return false;
  if (!layout_) return gradient.dtype() != options_.dtype();  // otherwise it is kept
  const bool in_place = gradient.const_data_ptr() == view(parameter).const_data_ptr();
  return !in_place &&
         std::ranges::none_of(late_, [&](const LateGradient& late) { return late.parameter == parameter; });
}

void UnitGradients::settle() {
  const auto waits = [](const ParameterGradient& one) { return one.waiting.defined(); };
  if (std::ranges::none_of(parameters_, waits)) return;
  if (!layout_) make_places();
  std::vector<torch::Tensor> places, gradients;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!waits(parameters_[i])) continue;
    const torch::Tensor gradient = std::exchange(parameters_[i].waiting, {});
    const torch::Tensor place = layout_ ? view(static_cast<int>(i)) : parameters_[i].kept;
    // A single gradient with other strides would make LibTorch copy each gradient by a kernel of its own.
    if (gradient.strides() != place.strides() || (!gradients.empty() && gradient.dtype() != gradients[0].dtype())) {
      place.copy_(gradient);
      continue;
    }
    places.push_back(place);
    gradients.push_back(gradient);
  }
  if (!places.empty()) at::_foreach_copy_(places, gradients);
}

void UnitGradients::bring_to_host(const memory::SideStream& stream) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    ParameterGradient& one = parameters_[i];
    const torch::Tensor gradient = std::exchange(one.waiting.defined() ? one.waiting : one.kept, {});
    if (!gradient.defined()) continue;
    leaving_.push_back(gradient);
    one.kept =
        torch::empty_strided(shapes_[i].sizes, shapes_[i].strides, torch::dtype(gradient.dtype()).pinned_memory(true));
  }
  arrived_ = stream.run(memory::Moment::of(memory::current_stream(options_.device())), [&] {
    auto next = leaving_.begin();
    for (ParameterGradient& one : parameters_) {
      if (one.kept.defined()) one.kept.copy_(*next++, /*non_blocking=*/true);
    }
  });
}

torch::Tensor UnitGradients::take_kept(int parameter) {
  if (!leaving_.empty()) {
    arrived_.wait_on_host();
    leaving_.clear();
  }
  return std::exchange(parameters_[parameter].kept, {});
}

// For one rank alone. Allocates one piece of memory for all waiting gradients.
void UnitGradients::make_places() {
  std::vector<int64_t> offsets;
  int64_t numel = 0;
  for (const ParameterGradient& one : parameters_) {
    offsets.push_back(numel);
    if (one.waiting.defined()) numel += round_up(one.waiting.numel(), layout::kAlignmentNumel);
  }
  const torch::Tensor places = torch::empty({numel}, options_);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].waiting.defined()) continue;
    parameters_[i].kept = places.as_strided(shapes_[i].sizes, shapes_[i].strides, offsets[i]);
  }
}

void UnitGradients::add_late(int parameter, const torch::Tensor& gradient) {
  const auto before =
      std::find_if(late_.begin(), late_.end(), [&](const LateGradient& late) { return late.parameter == parameter; });
  if (before != late_.end()) {
    before->gradient.add_(gradient);
  } else {
    keep_late(parameter, own(gradient, shapes_[parameter]));
  }
}

std::vector<uint8_t> UnitGradients::presence() const {
  std::vector<uint8_t> presence;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const bool wanted = layout_->wanted()[i];
    presence.push_back(!wanted                  ? collectives::kLeftOut
                       : parameters_[i].present ? collectives::kPresent
                                                : collectives::kMissing);
  }
  return presence;
}

bool UnitGradients::held_by_autograd() const {
  return std::any_of(parameters_.begin(), parameters_.end(),
                     [](const ParameterGradient& one) { return !one.placed.expired(); });
}

torch::Tensor UnitGradients::view(int parameter) const {
  const Shape& shape = shapes_[parameter];
  return buffer_.as_strided(shape.sizes, shape.strides, buffer_.storage_offset() + layout_->offset_of(parameter));
}

// The gradient itself where it may be kept, otherwise a copy.
torch::Tensor UnitGradients::own(const torch::Tensor& gradient, const Shape& shape) const {
  if (unshared(gradient) && gradient.dtype() == options_.dtype() && gradient.strides() == shape.strides) {
    return gradient.detach();
  }
  return torch::empty_strided(shape.sizes, shape.strides, options_).copy_(gradient);
}

}  // namespace fsdp::engine
