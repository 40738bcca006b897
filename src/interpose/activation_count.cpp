#include "interpose/activation_count.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "interpose/stored_activations.h"

namespace fsdp::interpose {

namespace {

const void* address_of(const torch::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

// A tensor that is kept as autograd keeps it.
class CountedTensor final : public ActivationHooks {
 public:
  CountedTensor(std::shared_ptr<ActivationCount> count, int unit) : count_(std::move(count)), unit_(unit) {}
  ~CountedTensor() override {
    if (storage_ != nullptr) count_->give_up(storage_);
  }

 private:
  void pack(const torch::Tensor& activation) override {
    kept_ = KeptTensor(activation);
    if (!activation.has_storage()) return;
    storage_ = address_of(activation);
    count_->keep(storage_, static_cast<int64_t>(activation.storage().nbytes()), unit_);
  }
  torch::Tensor unpack() override { return kept_.get(); }

  std::shared_ptr<ActivationCount> count_;
  int unit_;
  KeptTensor kept_;
  const void* storage_ = nullptr;  // that is counted
};

class CountingKeeper final : public SavedTensorKeeper {
 public:
  CountingKeeper(std::shared_ptr<ActivationCount> count, int unit) : count_(std::move(count)), unit_(unit) {}
  SavedTensorHooks hooks() override { return std::make_unique<CountedTensor>(count_, unit_); }

 private:
  std::shared_ptr<ActivationCount> count_;
  int unit_;
};

}  // namespace

ActivationCount::Bytes ActivationCount::bytes() const {
  const std::lock_guard lock(mutex_);
  return {.now = now_,
          .at_peak = sum_ > peak_ ? now_ : at_peak_,
          .elsewhere_now = elsewhere_,
          .elsewhere_at_peak = elsewhere_peak_};
}

ActivationCount::Storages ActivationCount::storages() const {
  const std::lock_guard lock(mutex_);
  return kept_storages(/*elsewhere=*/false);
}

ActivationCount::Storages ActivationCount::kept_storages(bool elsewhere) const {
  Storages storages;
  for (const auto& [address, kept] : storages_) {
    if (kept.bytes > 0 && elsewhere == (kept.unit == kElsewhere)) storages.push_back(kept.bytes);
  }
  std::ranges::sort(storages, std::greater());
  return storages;
}

void ActivationCount::begin_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = sum_;
  at_peak_ = now_;
  elsewhere_peak_ = elsewhere_;
}

int64_t ActivationCount::take_peak() {
  const std::lock_guard lock(mutex_);
  return std::max(std::exchange(taken_peak_, 0), sum_);
}

int64_t ActivationCount::take_traced_peak() {
  const std::lock_guard lock(mutex_);
  return std::max(std::exchange(traced_peak_, 0), sum_);
}

void ActivationCount::keep(const void* storage, int64_t bytes, int unit) {
  const std::lock_guard lock(mutex_);
  Kept& kept = storages_[storage];
  if (kept.holders++ > 0) return;
  kept.bytes = bytes;
  kept.unit = unit;
  now_[static_cast<size_t>(unit)] += bytes;
  sum_ += bytes;
  grew_ = true;
}

bool ActivationCount::is_kept(const void* storage) const {
  const std::lock_guard lock(mutex_);
  return storages_.find(storage) != storages_.end();
}

void ActivationCount::keep_elsewhere(const void* stored, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  storages_[stored] = {.bytes = bytes, .unit = kElsewhere, .holders = 1};
  elsewhere_ += bytes;
  elsewhere_peak_ = std::max(elsewhere_peak_, elsewhere_);
  grew_ = true;
}

void ActivationCount::give_up(const void* storage) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = storages_.find(storage);
  if (--found->second.holders > 0) return;
  note_peak();
  if (moments_ != nullptr) note_moment();
  const Kept kept = found->second;
  storages_.erase(found);
  if (kept.unit == kElsewhere) {
    elsewhere_ -= kept.bytes;
    return;
  }
  now_[static_cast<size_t>(kept.unit)] -= kept.bytes;
  sum_ -= kept.bytes;
}

// A sum is largest before something goes: looking at it there alone spares a copy for each tensor that comes.
void ActivationCount::note_peak() {
  taken_peak_ = std::max(taken_peak_, sum_);
  traced_peak_ = std::max(traced_peak_, sum_);
  if (sum_ <= peak_) return;
  peak_ = sum_;
  at_peak_ = now_;
}

void ActivationCount::note_moment() {
  if (std::exchange(grew_, false) && sum_ + elsewhere_ > 0)
    moments_->push_back({kept_storages(false), kept_storages(true)});
}

void ActivationCount::end_moments() {
  const std::lock_guard lock(mutex_);
  note_moment();
  moments_ = nullptr;
}

void ActivationCount::add_moment() {
  const std::lock_guard lock(mutex_);
  grew_ = true;
  note_moment();
  grew_ = true;
}

void ActivationCount::leave_out(const torch::Tensor& tensor) {
  if (tensor.has_storage()) keep(address_of(tensor), /*bytes=*/0, /*unit=*/0);
}

std::shared_ptr<SavedTensorKeeper> counting_keeper(std::shared_ptr<ActivationCount> count, int unit) {
  return std::make_shared<CountingKeeper>(std::move(count), unit);
}

ActivationWatch::ActivationWatch(size_t units) : count_(std::make_shared<ActivationCount>(units)) {
  install_saved_tensor_engine();
  for (size_t unit = 0; unit < units; ++unit) {
    keepers_.push_back(counting_keeper(count_, static_cast<int>(unit)));
  }
}

void ActivationWatch::store(const std::shared_ptr<StoredActivations>& stored) {
  for (auto& keeper : keepers_) keeper = storing_keeper(stored, keeper);
}

}  // namespace fsdp::interpose
