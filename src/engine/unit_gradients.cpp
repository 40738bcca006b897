#include "engine/unit_gradients.h"

#include <algorithm>

#include "collectives/presence.h"

namespace fsdp::engine {

namespace {

// Whether the tensor's bytes are its own: nobody else holds it, its storage, or the tensor that it is a view of.
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
  if (first && !layout_) {
    one.kept = own(gradient, shapes_[parameter]);
    one.present = true;
    return;
  }
  const torch::Tensor target = layout_ ? view(parameter) : one.kept;
  const bool in_place = gradient.const_data_ptr() == target.const_data_ptr();
  // Of a backward inside of the one that still adds to what it wrote there: these make a sum of their own.
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
