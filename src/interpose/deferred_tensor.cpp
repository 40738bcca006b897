#include "interpose/deferred_tensor.h"

#include <c10/core/TensorOptions.h>

#include <typeinfo>
#include <utility>

#include "base/error.h"
#include "interpose/fallback.h"

namespace fsdp::interpose {

namespace {

at::Tensor tensor_over(c10::Storage storage, c10::DispatchKeySet keys, const at::Tensor& like) {
  auto tensor = c10::make_intrusive<c10::TensorImpl>(std::move(storage), keys, like.dtype());
  tensor->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  return at::Tensor(std::move(tensor));
}

c10::DispatchKeySet backend_keys(const at::Tensor& like, torch::Device device) {
  return c10::DispatchKeySet(c10::computeDispatchKey(like.scalar_type(), like.layout(), device));
}

}  // namespace

DeferredStorage::DeferredStorage(int number, c10::Storage shape, torch::Device device,
                                 std::shared_ptr<OperatorRecorder> recorder)
    : StorageImpl(use_byte_size_t(), static_cast<int64_t>(shape.nbytes()), at::DataPtr(nullptr, device), nullptr,
                  false),
      number_(number),
      shape_(std::move(shape)),
      recorder_(std::move(recorder)) {
  release_data_and_set_meta_custom_data_ptr_error_msg_(
      message_prefix() +
      "the bytes of a deferred tensor were asked for outside of an operator (data_ptr, accessor or torch::save), where "
      "there are none yet. Inside deferred_init, compute with operators, or make the numbers first and a tensor of "
      "them (torch::tensor); after it, shard the module or call fsdp::materialize(module) first.");
}

void DeferredStorage::leave(const std::string& parameter) {
  left_by_ = parameter;
  release_data_and_set_meta_custom_data_ptr_error_msg_(message_prefix() + "the bytes of a tensor were asked for, but " +
                                                       left_behind(parameter));
}

std::string left_behind(const std::string& parameter) {
  return "it shares memory with the parameter " + parameter +
         " and was made before fsdp::shard (detach(), a view): the parameter's values lie in the shards now, and this "
         "tensor has none. Make it of the parameter after shard.";
}

DeferredStorage* DeferredStorage::of(const at::TensorBase& tensor) {
  if (!tensor.defined() || !tensor.key_set().has(kKey)) return nullptr;
  c10::StorageImpl* storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  return storage != nullptr && typeid(*storage) == typeid(DeferredStorage) ? static_cast<DeferredStorage*>(storage)
                                                                           : nullptr;
}

at::Tensor deferred_tensor(const c10::intrusive_ptr<DeferredStorage>& storage, const at::Tensor& like) {
  ensure_fallback();
  return tensor_over(c10::Storage(storage), backend_keys(like, storage->device()).add(kKey), like);
}

at::Tensor meta_of(const at::Tensor& deferred) {
  return tensor_over(DeferredStorage::of(deferred)->shape(), backend_keys(deferred, torch::kMeta), deferred);
}

RecordedScope::RecordedScope(OperatorRecorder& recorder) : around_(current_) {
  ensure_fallback();
  current_ = &recorder;
}

RecordedScope::~RecordedScope() { current_ = around_; }

bool is_composite(const c10::OperatorHandle& operation) {
  return operation.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

// at::tensor allocates below autograd and above ADInplaceOrView; torch::empty goes below both.
bool makes_tensor_of_numbers() {
  const c10::DispatchKeySet excluded = c10::impl::tls_local_dispatch_key_set().excluded_;
  return excluded.has(c10::DispatchKey::AutogradFunctionality) && !excluded.has(c10::DispatchKey::ADInplaceOrView);
}

}  // namespace fsdp::interpose
