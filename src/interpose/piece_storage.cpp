#include "interpose/piece_storage.h"

#include <typeinfo>

#include "interpose/fallback.h"

namespace fsdp::interpose {

PieceStorage::PieceStorage(const torch::Tensor& memory, Holds holds, std::shared_ptr<Link> link)
    : StorageImpl(use_byte_size_t(), static_cast<int64_t>(memory.nbytes()),
                  at::DataPtr(memory.data_ptr(), memory.device()), nullptr, false),
      memory_(memory),
      holds_(holds),
      link_(std::move(link)) {}

PieceStorage* PieceStorage::of(const at::TensorBase& tensor) {
  c10::StorageImpl* storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  return storage != nullptr && typeid(*storage) == typeid(PieceStorage) ? static_cast<PieceStorage*>(storage) : nullptr;
}

torch::Tensor watched(const torch::Tensor& plain, PieceStorage::Holds holds, const std::shared_ptr<Link>& link) {
  ensure_fallback();
  auto view = c10::make_intrusive<c10::TensorImpl>(c10::Storage(c10::make_intrusive<PieceStorage>(plain, holds, link)),
                                                   plain.key_set().add(kKey), plain.dtype());
  view->set_sizes_and_strides(plain.sizes(), plain.strides());
  return torch::Tensor(std::move(view));
}

torch::Tensor plain(const torch::Tensor& tensor) {
  const PieceStorage* storage = PieceStorage::of(tensor);
  if (storage == nullptr) return tensor.detach();
  const int64_t begin = tensor.storage_offset();
  return storage->memory().slice(0, begin, begin + tensor.numel());
}

}  // namespace fsdp::interpose
