#include "interpose/unit_storage.h"

#include "base/error.h"

namespace fsdp::interpose {

UnitStorage::UnitStorage(int unit, std::string name, size_t bytes, std::shared_ptr<Link> link)
    : StorageImpl(use_byte_size_t(), bytes, at::DataPtr(nullptr, at::kCPU), nullptr, false),
      unit_(unit),
      name_(std::move(name)),
      refusal_(message_prefix(name_) +
               "the bytes of a sharded parameter were asked for outside of an operator (data_ptr, accessor or "
               "torch::save), where they are not kept. Open sharded.full_parameters() around this access."),
      link_(std::move(link)) {
  unbind();
}

void UnitStorage::bind(void* bytes) {
  set_data_ptr_noswap(at::DataPtr(
      bytes, bytes, [](void*) {}, at::kCPU));
}

void UnitStorage::unbind() {
  set_data_ptr_noswap(at::DataPtr(nullptr, at::kCPU));
  forbid_access();
}

// The message goes to and fro, since every operator allows and forbids: no copy, no allocation.
void UnitStorage::allow_access() {
  if (auto& message = get_extra_meta().custom_data_ptr_error_msg_) refusal_ = *std::move(message);
  clear_data_ptr_access_error_msg_();
}

void UnitStorage::forbid_access() {
  if (get_extra_meta().custom_data_ptr_error_msg_) return;
  release_data_and_set_meta_custom_data_ptr_error_msg_(std::move(refusal_));
}

}  // namespace fsdp::interpose
