#include "interpose/unit_storage.h"

#include "base/error.h"

namespace fsdp::interpose {

UnitStorage::UnitStorage(int unit, std::string name, size_t bytes, torch::ScalarType dtype, bool casts_activations,
                         std::shared_ptr<Link> link, torch::Device device)
    : StorageImpl(use_byte_size_t(), static_cast<int64_t>(bytes), at::DataPtr(nullptr, device), nullptr, false),
      unit_(unit),
      name_(std::move(name)),
      refusal_(message_prefix(name_) +
               "the bytes of a sharded parameter were asked for outside of an operator (data_ptr, accessor or "
               "torch::save), where they are not kept. To save the model, call fsdp::save_pretrained on every rank "
               "instead of torch::save. Open sharded.full_parameters() around any other access, or read a copy, "
               "parameter.clone(). In the forward or backward of a torch::autograd::Function, register the code that "
               "reads them as an operator (TORCH_LIBRARY) and call that: while it runs they are there."),
      dtype_(dtype),
      casts_activations_(casts_activations),
      link_(std::move(link)),
      full_(name_, link_->operation) {
  unbind();
}

void UnitStorage::bind(void* bytes) {
  set_data_ptr_noswap(at::DataPtr(
      bytes, bytes, [](void*) {}, device()));
  full_.set(bytes, nbytes());
}

void UnitStorage::unbind() {
  full_.clear();
  set_data_ptr_noswap(at::DataPtr(nullptr, device()));
  forbid_access();
}

}  // namespace fsdp::interpose
