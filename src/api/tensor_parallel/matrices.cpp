#include "api/tensor_parallel/matrices.h"

#include <ATen/ops/mm.h>

#include <cstdint>

#include "interpose/accumulator.h"
#include "interpose/activations.h"

namespace fsdp {

using torch::Tensor;

namespace {

constexpr uintptr_t kAlignedBytes = 64;

}  // namespace

bool is_own_matrix(const Tensor& tensor) {
  return tensor.is_contiguous() && reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % kAlignedBytes == 0;
}

Tensor own_matrix(const Tensor& tensor) {
  return is_own_matrix(tensor) ? tensor : tensor.clone(torch::MemoryFormat::Contiguous);
}

Tensor own_rows(const Tensor& tensor) { return own_matrix(tensor.reshape({-1, tensor.size(-1)})); }

void write_product(const Tensor& to, const Tensor& left, const Tensor& right) {
  Tensor place = to;
  if (is_own_matrix(place)) {
    at::mm_out(place, left, right);
  } else {
    place.copy_(left.mm(right));
  }
}

Tensor place_of_gradient(const Tensor& weight) {
  const Tensor place = weight.is_leaf() ? interpose::gradient_destination(weight) : Tensor();
  return place.defined() ? place : torch::empty(weight.sizes(), weight.options());
}

Tensor cast_to_unit(const Tensor& input, const Tensor& weight) {
  const interpose::UnitStorage* unit = interpose::UnitStorage::of(weight);
  return unit != nullptr && unit->casts_activations() ? interpose::cast_argument(input, unit->dtype()) : input;
}

}  // namespace fsdp
