// A tensor's storage, looked at without an operator and without access to its bytes.
#pragma once

#include <c10/core/StorageImpl.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>

namespace fsdp::interpose {

struct StorageFacts {
  const void* storage = nullptr;  // equal for tensors of one storage; null: the tensor has none
  uintptr_t address = 0;          // of the storage's first byte; 0: it has no bytes
  size_t holders = 0;             // tensors, and others that keep the storage
};

inline StorageFacts storage_facts(const torch::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return {};
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  return {storage, reinterpret_cast<uintptr_t>(storage->_mutable_data_ptr_no_checks().get()),
          tensor.storage().use_count()};
}

}  // namespace fsdp::interpose
