#include "interpose/stored_activations.h"

#include <ATen/TensorSubclassLikeUtils.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace fsdp::interpose {

namespace {

constexpr int64_t kLeastPart = 8;  // a view is worth its storage where it has so much of it: 1 in 8

const c10::StorageImpl* address_of_storage(const torch::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

torch::Tensor over(const c10::Storage& storage, torch::ScalarType dtype, int64_t offset, at::IntArrayRef sizes,
                   at::IntArrayRef strides) {
  const torch::NoGradGuard no_grad;
  return torch::empty({0}, torch::dtype(dtype).device(storage.device())).set_(storage, offset, sizes, strides);
}

torch::Tensor bytes_of(const torch::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  return over(storage, torch::kUInt8, 0, {static_cast<int64_t>(storage.nbytes())}, {1});
}

// Tensors of one storage may count their versions apart, as the parts that unsafe_chunk makes. LibTorch does not tell
// which do: a counter is a pointer that it keeps to itself.
bool is_same_counter(const c10::VariableVersion& a, const c10::VariableVersion& b) {
  static_assert(sizeof(c10::VariableVersion) == sizeof(void*));
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): a pointer has no padding
  return a.enabled() && std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace

// A tensor's version, which outlives it.
class NotedVersion {
 public:
  NotedVersion() = default;
  explicit NotedVersion(const torch::Tensor& tensor)
      : version_(torch::autograd::impl::version_counter(tensor)), noted_(number()) {}
  // True if the tensor has the counter, and its bytes have not changed since.
  bool is_still(const torch::Tensor& tensor) const {
    return is_same_counter(version_, torch::autograd::impl::version_counter(tensor)) && number() == noted_;
  }
  void check(at::IntArrayRef sizes, torch::ScalarType dtype) const {
    TORCH_CHECK(number() == noted_,
                "one of the variables needed for gradient computation has been modified by an inplace operation: [",
                toString(dtype), " ", sizes, "] is at version ", number(), "; expected version ", noted_,
                " instead. Call the operator that is not in place (add instead of add_), or the one in place on a "
                "clone().");
  }

 private:
  uint32_t number() const { return version_.enabled() ? version_.current_version() : 0; }

  c10::VariableVersion version_;
  uint32_t noted_ = 0;
};

// A storage's bytes at one version.
class StoredStorage {
 public:
  StoredStorage(std::shared_ptr<StoredActivations> of, const torch::Tensor& activation)
      : of_(std::move(of)),
        address_(address_of_storage(activation)),
        original_(activation.storage().getWeakStorageImpl()),
        version_(activation),
        bytes_(of_->store_->put(bytes_of(activation))) {
    of_->count_->keep_elsewhere(this, static_cast<int64_t>(activation.storage().nbytes()));
  }
  ~StoredStorage() {
    of_->count_->give_up(this);
    of_->forget(address_, this);
  }
  StoredStorage(const StoredStorage&) = delete;
  StoredStorage& operator=(const StoredStorage&) = delete;

  // True if the tensor, which has this storage, has these bytes.
  bool is_of(const torch::Tensor& activation) const { return version_.is_still(activation); }
  // Shared by those who have it at the same time.
  c10::Storage storage();

 private:
  using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;

  std::shared_ptr<StoredActivations> of_;
  const c10::StorageImpl* address_;
  Weak original_;  // while it is known here, its address is unique
  NotedVersion version_;
  std::shared_ptr<memory::StoredBytes> bytes_;
  std::mutex mutex_;
  Weak given_{c10::intrusive_ptr<c10::StorageImpl>()};
};

c10::Storage StoredStorage::storage() {
  const std::lock_guard lock(mutex_);
  if (auto original = original_.lock()) return c10::Storage(std::move(original));
  if (auto given = given_.lock()) return c10::Storage(std::move(given));
  c10::Storage storage = bytes_->get().storage();
  given_ = storage.getWeakStorageImpl();
  return storage;
}

StoredActivations::StoredActivations(std::shared_ptr<memory::ByteStore> store, Rules rules,
                                     std::shared_ptr<ActivationCount> count)
    : store_(std::move(store)), rules_(std::move(rules)), count_(std::move(count)) {
  std::erase_if(rules_.staying, [&](const torch::Tensor& tensor) {
    return !tensor.has_storage() || static_cast<int64_t>(tensor.storage().nbytes()) < rules_.least_bytes;
  });
}

bool StoredActivations::takes(const torch::Tensor& activation) const {
  if (torch::autograd::get_current_graph_task_id() >= 0) return false;  // in a backward
  if (at::isTensorSubclassLike(activation) || activation.layout() != torch::kStrided || !activation.has_storage() ||
      activation.is_conj() || activation.is_neg() || activation.is_quantized() ||
      activation.device() != rules_.device) {
    return false;
  }
  if (activation.is_leaf() && activation.requires_grad()) return false;  // a parameter of no unit
  const auto bytes = static_cast<int64_t>(activation.storage().nbytes());
  if (bytes == 0 || bytes < rules_.least_bytes || static_cast<int64_t>(activation.nbytes()) * kLeastPart < bytes) {
    return false;
  }
  return std::ranges::none_of(rules_.staying, [&](const torch::Tensor& staying) {
    return address_of_storage(staying) == address_of_storage(activation);
  });
}

std::shared_ptr<StoredStorage> StoredActivations::put(const torch::Tensor& activation) {
  std::shared_ptr<StoredStorage> found;  // goes without the lock, if it is the last
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(address_of_storage(activation));
  if (known != known_.end()) found = known->second.stored.lock();
  if (found && found->is_of(activation)) return found;
  auto stored = std::make_shared<StoredStorage>(shared_from_this(), activation);
  known_[address_of_storage(activation)] = {stored, stored.get()};
  return stored;
}

void StoredActivations::forget(Address storage, const StoredStorage* stored) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(storage);
  if (found != known_.end() && found->second.address == stored) known_.erase(found);
}

namespace {

class StorableTensor final : public ActivationHooks {
 public:
  StorableTensor(std::shared_ptr<StoredActivations> stored, SavedTensorHooks in_memory)
      : all_(std::move(stored)), in_memory_(std::move(in_memory)) {}

 private:
  void pack(const torch::Tensor& activation) override {
    if (!all_->takes(activation)) return in_memory_->call_pack_hook(activation);
    stored_ = all_->put(activation);
    in_memory_.reset();
    version_ = NotedVersion(activation);
    dtype_ = activation.scalar_type();
    offset_ = activation.storage_offset();
    sizes_ = activation.sizes().vec();
    strides_ = activation.strides().vec();
  }
  torch::Tensor unpack() override {
    if (!stored_) return in_memory_->call_unpack_hook();
    version_.check(sizes_, dtype_);
    return over(stored_->storage(), dtype_, offset_, sizes_, strides_);
  }

  std::shared_ptr<StoredActivations> all_;
  SavedTensorHooks in_memory_;
  std::shared_ptr<StoredStorage> stored_;
  NotedVersion version_;
  torch::ScalarType dtype_ = torch::kFloat32;
  int64_t offset_ = 0;
  std::vector<int64_t> sizes_, strides_;
};

class StoringKeeper final : public SavedTensorKeeper {
 public:
  StoringKeeper(std::shared_ptr<StoredActivations> stored, std::shared_ptr<SavedTensorKeeper> in_memory)
      : stored_(std::move(stored)), in_memory_(std::move(in_memory)) {}
  SavedTensorHooks hooks() override { return std::make_unique<StorableTensor>(stored_, in_memory_->hooks()); }
  SavedTensorHooks hooks_in_memory() override { return in_memory_->hooks_in_memory(); }

 private:
  std::shared_ptr<StoredActivations> stored_;
  std::shared_ptr<SavedTensorKeeper> in_memory_;
};

}  // namespace

std::shared_ptr<SavedTensorKeeper> storing_keeper(std::shared_ptr<StoredActivations> stored,
                                                  std::shared_ptr<SavedTensorKeeper> in_memory) {
  return std::make_shared<StoringKeeper>(std::move(stored), std::move(in_memory));
}

}  // namespace fsdp::interpose
