// The storage that all parameters of a unit are views of: its bytes are rebound, under the feet of views and of tensors
// saved by autograd, when the unit becomes full or sharded.
//
// Threads: the owner serialises all calls. Access outside of an operator is refused with a message, unless allowed.
#pragma once

#include <c10/core/StorageImpl.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <typeinfo>
#include <utility>

#include "interpose/key.h"
#include "interpose/libtorch_versions.h"
#include "interpose/listener.h"
#include "interpose/write_fault.h"

namespace fsdp::interpose {

class UnitStorage final : public c10::StorageImpl {
 public:
  // `casts_activations`: see activations.h. `device` is where its bytes will be.
  UnitStorage(int unit, std::string name, size_t bytes, torch::ScalarType dtype, bool casts_activations,
              std::shared_ptr<Link> link, torch::Device device = torch::kCPU);

  int unit() const { return unit_; }
  const std::string& name() const { return name_; }
  torch::ScalarType dtype() const { return dtype_; }
  bool casts_activations() const { return casts_activations_; }
  const std::shared_ptr<Link>& link() const { return link_; }

  void bind(void* bytes);  // not owned
  void unbind();
  // The message goes to and fro, since every operator allows and forbids: no copy, no allocation.
  void allow_access() {
    if (auto& message = get_extra_meta().custom_data_ptr_error_msg_) refusal_ = std::move(*message);
    allow_data_access(*this);
  }
  void forbid_access() {
    auto& message = get_extra_meta().custom_data_ptr_error_msg_;
    if (message) return;
    release_data_and_set_meta_custom_data_ptr_error_msg_(std::nullopt);
    message.emplace(std::move(refusal_));
  }

  // The unit storage behind a tensor; null for any other tensor.
  static UnitStorage* of(const at::TensorBase& tensor) {
    if (!tensor.key_set().has(kKey)) return nullptr;
    c10::StorageImpl* storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    return storage != nullptr && typeid(*storage) == typeid(UnitStorage) ? static_cast<UnitStorage*>(storage) : nullptr;
  }

 private:
  int unit_;
  std::string name_;
  std::string refusal_;
  torch::ScalarType dtype_;
  bool casts_activations_;
  std::shared_ptr<Link> link_;
  GuardedRange full_;  // where it is bound
};

}  // namespace fsdp::interpose
