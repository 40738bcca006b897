// Operators that make, view, resize and copy tensors of the device; fallback.h has all others.
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "device/accesses.h"
#include "device/allocator.h"
#include "device/arena.h"
#include "device/host_tensor.h"
#include "device/operator_in_flight.h"
#include "device/streams.h"

namespace fsdp::testing::device {

namespace {

using at::Tensor;
using Sizes = c10::SymIntArrayRef;

const c10::DispatchKeySet kKeys(c10::DispatchKey::CUDA);

Tensor empty(Sizes size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &device_allocator(), kKeys,
                                   c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(Sizes size, Sizes stride, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                     std::optional<at::Device> device, std::optional<bool>) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                           &device_allocator(), kKeys, c10::dtype_or_default(dtype));
}

void copy_bytes(void* to, const void* from, size_t bytes) { device_allocator().copy_data(to, from, bytes); }

void resize_storage(const Tensor& tensor, size_t bytes) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->nbytes() >= bytes) return;
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  const c10::DeviceGuard guard(tensor.device());
  c10::DataPtr larger = device_allocator().allocate(bytes);
  if (storage->nbytes() > 0) copy_bytes(larger.get(), storage->data(), storage->nbytes());
  storage->set_data_ptr_noswap(std::move(larger));
  storage->set_nbytes(bytes);
}

const Tensor& resize(const Tensor& self, Sizes size, std::optional<at::MemoryFormat> format) {
  const c10::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(size);
  const auto numel = static_cast<size_t>(c10::multiply_integers(sizes));
  c10::TensorImpl* tensor = self.unsafeGetTensorImpl();
  if (self.sizes() == sizes) return self;
  resize_storage(self, (numel + static_cast<size_t>(self.storage_offset())) * self.itemsize());
  tensor->set_sizes_contiguous(sizes);
  if (format && *format != at::MemoryFormat::Preserve) tensor->empty_tensor_restride(*format);
  return self;
}

Tensor& set_all(Tensor& self, c10::Storage storage, int64_t offset, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  c10::TensorImpl* tensor = self.unsafeGetTensorImpl();
  tensor->set_storage_keep_dtype(std::move(storage));
  tensor->set_sizes_and_strides(sizes, strides, offset);
  return self;
}

Tensor& set_storage_part(Tensor& self, c10::Storage storage, c10::SymInt offset, Sizes size, Sizes stride) {
  const c10::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(size);
  const std::vector<int64_t> usual = at::detail::defaultStrides(sizes);
  return set_all(self, std::move(storage), offset.expect_int(), sizes,
                 stride.empty() ? c10::IntArrayRef(usual) : C10_AS_INTARRAYREF_SLOW(stride));
}

Tensor& set_storage(Tensor& self, c10::Storage storage) {
  const auto numel = static_cast<int64_t>(storage.nbytes() / self.itemsize());
  return set_all(self, std::move(storage), 0, {numel}, {1});
}

Tensor& set_tensor(Tensor& self, const Tensor& source) {
  return set_all(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

Tensor& set_nothing(Tensor& self) {
  c10::Storage none(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                          device_allocator().allocate(0), &device_allocator(), true));
  return set_all(self, std::move(none), 0, {0}, {1});
}

Tensor as_strided(const Tensor& self, Sizes size, Sizes stride, std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                           offset ? std::optional(offset->expect_int()) : std::nullopt);
}

Tensor view(const Tensor& self, Sizes size) { return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size)); }

Tensor reshape_alias(const Tensor& self, Sizes size, Sizes stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}

void record_stream(Tensor& self, c10::Stream stream) { use_on_stream(self.storage().data(), stream); }

bool is_in_pinned_memory(const Tensor& tensor) { return tensor.is_cpu() && is_pinned(tensor.storage().data()); }

// The streams of two devices wait for each other around a copy between them.
void order_devices(const c10::Stream& from, const c10::Stream& to) {
  if (from.device() == to.device()) return;
  note_stream_wait(from, to, clock_of(to));
}

// The host waits unless it was asked not to; memory of the host that is not pinned is copied while the call lasts.
bool host_waits_for_copy(const Tensor& to, const Tensor& from, bool non_blocking) {
  if (to.is_cuda() && from.is_cuda()) return false;
  if (!non_blocking) return true;
  return to.is_cpu() && !is_in_pinned_memory(to);
}

Tensor& copy(Tensor& self, const Tensor& source, bool non_blocking) {
  const OperatorInFlight in_flight("aten::copy_");
  const c10::Stream to = current_stream((self.is_cuda() ? self : source).device().index());
  const c10::Stream from = current_stream((source.is_cuda() ? source : self).device().index());
  HostTensors tensors;
  Tensor host_self = tensors.of(self, true);
  const Tensor host_source = tensors.of(source, false);
  {
    at::AutoDispatchBelowADInplaceOrView below;
    host_self.copy_(host_source);
  }
  if (self.numel() == 0) return self;
  const char* name = !source.is_cuda() ? "copy_ to the device" : self.is_cuda() ? "copy_" : "copy_ to the host";
  order_devices(from, to);
  note_launch(from, name, std::move(tensors.reads), std::move(tensors.writes));
  order_devices(to, from);
  if (host_waits_for_copy(self, source, non_blocking)) note_host_wait(name, from);
  return self;
}

Tensor copy_from(const Tensor& self, const Tensor& to, bool non_blocking) {
  Tensor target = to;
  copy(target, self, non_blocking);
  return to;
}

at::Scalar local_scalar(const Tensor& self) {
  const OperatorInFlight in_flight("aten::item");
  HostTensors tensors;
  const Tensor host = tensors.of(self, false);
  const c10::Stream stream = current_stream(self.device().index());
  note_launch(stream, "item", std::move(tensors.reads), {});
  note_host_wait("item", stream);
  at::AutoDispatchBelowADInplaceOrView below;
  return host.clone().item();
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("resize_", resize);
  library.impl("set_.source_Storage_storage_offset", set_storage_part);
  library.impl("set_.source_Storage", set_storage);
  library.impl("set_.source_Tensor", set_tensor);
  library.impl("set_", set_nothing);
  library.impl("as_strided", as_strided);
  library.impl("view", view);
  library.impl("_reshape_alias", reshape_alias);
  library.impl("record_stream", record_stream);
  library.impl("copy_", copy);
  library.impl("_copy_from", copy_from);
  library.impl("_local_scalar_dense", local_scalar);
}

}  // namespace

void* host_view(const void* pointer) {
  const Arena* arena = arena_with(pointer);
  TORCH_CHECK(arena != nullptr, "the tests' device: ", pointer, " is no address of it");
  return arena->alias(pointer);
}

}  // namespace fsdp::testing::device
