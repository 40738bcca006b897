#include "device/host_tensor.h"

#include <ATen/EmptyTensor.h>
#include <ATen/TensorUtils.h>
#include <ATen/native/TensorIterator.h>
#include <ATen/ops/as_strided_native.h>

#include <cstring>

#include "device/allocator.h"
#include "device/arena.h"

namespace fsdp::testing::device {

namespace {

constexpr int64_t kMostRows = 64;

const void* bytes_without_checks(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get();
}

bool has_other_view(const at::Tensor& tensor) {
  return tensor.has_storage() && (tensor.is_cuda() || is_pinned(bytes_without_checks(tensor)));
}

// The last dimensions that lie without gaps are one row.
void add_rows(uintptr_t begin, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t itemsize,
              std::vector<Range>& ranges) {
  int64_t extent = 1;
  for (size_t i = 0; i < sizes.size(); ++i) extent += (sizes[i] - 1) * strides[i];
  const bool has_gaps = extent > c10::multiply_integers(sizes);
  if (has_gaps && !sizes.empty() && sizes[0] <= kMostRows && strides[0] > 0) {
    for (int64_t i = 0; i < sizes[0]; ++i)
      add_rows(begin + static_cast<uintptr_t>(i * strides[0] * itemsize), sizes.slice(1), strides.slice(1), itemsize,
               ranges);
    return;
  }
  ranges.push_back({begin, begin + static_cast<uintptr_t>(extent * itemsize)});
}

}  // namespace

bool is_on_device(const at::Tensor& tensor) { return tensor.defined() && tensor.is_cuda(); }

void add_ranges(const at::Tensor& tensor, std::vector<Range>& ranges) {
  if (!tensor.has_storage() || tensor.numel() == 0 || !has_other_view(tensor)) return;
  const auto begin = reinterpret_cast<uintptr_t>(bytes_without_checks(tensor)) +
                     static_cast<uintptr_t>(tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize()));
  add_rows(begin, tensor.sizes(), tensor.strides(), static_cast<int64_t>(tensor.itemsize()), ranges);
}

c10::Storage HostTensors::storage_of(const at::Tensor& tensor, bool written) {
  for (Pair& pair : pairs_) {
    if (!pair.device.is_alias_of(tensor)) continue;
    if (written) tensor.storage().unsafeGetStorageImpl()->mutable_data();
    return pair.host.storage();
  }
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const void* bytes = written ? storage->mutable_data() : storage->data();
  void* alias = nullptr;
  if (bytes != nullptr) {
    const Arena* arena = arena_with(bytes);
    TORCH_CHECK(arena != nullptr, "the tests' device: a tensor on ", tensor.device(), " has bytes at ", bytes,
                ", which is memory of the host");
    alias = arena->alias(bytes);
  }
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), storage->nbytes(),
                                                            c10::DataPtr(alias, c10::kCPU),
                                                            c10::GetAllocator(c10::kCPU), /*resizable=*/true));
}

at::Tensor HostTensors::of(const at::Tensor& tensor, bool written) {
  if (!tensor.defined() || !has_other_view(tensor)) return tensor;
  add_ranges(tensor, written ? writes : reads);
  for (Pair& pair : pairs_) {
    if (!pair.device.is_same(tensor)) continue;
    pair.written |= written;
    return pair.host;
  }
  auto host = at::detail::make_tensor<c10::TensorImpl>(storage_of(tensor, written),
                                                       c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  host.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.is_conj()) host._set_conj(true);
  if (tensor.is_neg()) host._set_neg(true);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) host.unsafeGetTensorImpl()->set_wrapped_number(true);
  const void* bytes = bytes_without_checks(host);
  pairs_.push_back({tensor, host, bytes, written});
  return host;
}

at::Tensor HostTensors::fresh(const at::Tensor& result, c10::Device device) {
  const c10::OptionalDeviceGuard guard(device);
  at::Tensor made =
      at::detail::empty_strided_generic(result.sizes(), result.strides(), &device_allocator(),
                                        c10::DispatchKeySet(c10::DispatchKey::CUDA), result.scalar_type());
  const size_t bytes = made.storage().nbytes();
  if (bytes > 0) {
    const auto* from = static_cast<const char*>(bytes_without_checks(result)) +
                       result.storage_offset() * static_cast<int64_t>(result.itemsize());
    void* to = made.storage().mutable_data();
    std::memcpy(arena_with(to)->alias(to), from, bytes);
  }
  add_ranges(made, writes);
  return made;
}

at::Tensor HostTensors::on_device(const at::Tensor& result, c10::Device device) {
  if (!result.defined() || !result.is_cpu() || result.layout() != c10::kStrided) return result;
  for (const Pair& pair : pairs_) {
    if (pair.host.is_same(result)) return pair.device;
    if (!pair.host.is_alias_of(result)) continue;
    auto view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(pair.device.storage()),
                                                         c10::DispatchKeySet(c10::DispatchKey::CUDA), result.dtype());
    view.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), result.strides(), result.storage_offset());
    return view;
  }
  return fresh(result, device);
}

void HostTensors::take_over_changes() {
  for (Pair& pair : pairs_) {
    if (!pair.written || !pair.device.is_cuda()) continue;
    const bool moved = bytes_without_checks(pair.host) != pair.bytes;
    if (moved) {
      c10::StorageImpl* storage = pair.device.storage().unsafeGetStorageImpl();
      const at::Tensor made = fresh(pair.host, pair.device.device());
      storage->set_data_ptr_noswap(std::move(made.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks()));
      storage->set_nbytes(made.storage().nbytes());
    }
    if (moved || pair.host.sizes() != pair.device.sizes() || pair.host.strides() != pair.device.strides())
      pair.device.unsafeGetTensorImpl()->set_sizes_and_strides(pair.host.sizes(), pair.host.strides(),
                                                               moved ? 0 : pair.host.storage_offset());
  }
}

}  // namespace fsdp::testing::device
