#include "deferred/real_tensors.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "deferred/page_memory.h"
#include "deferred/recording.h"
#include "interpose/piece_storage.h"

namespace fsdp::deferred {

namespace {

using interpose::DeferredStorage;

constexpr int64_t kLargestElement = 16;  // in bytes: complex numbers

std::shared_ptr<Recording> recording_of(const DeferredStorage& storage) {
  return std::static_pointer_cast<Recording>(storage.recorder());
}

bool fits(const torch::Tensor& deferred, const torch::Tensor& place) {
  return deferred.storage_offset() == 0 && deferred.nbytes() == deferred.storage().nbytes() &&
         deferred.scalar_type() == place.scalar_type() && deferred.device() == place.device() &&
         deferred.sizes() == place.sizes() && deferred.strides() == place.strides() &&
         deferred.is_non_overlapping_and_dense() &&
         place.storage_offset() * place.element_size() % kLargestElement == 0;
}

std::set<std::shared_ptr<Recording>> recordings_of(const std::vector<torch::Tensor>& tensors) {
  std::set<std::shared_ptr<Recording>> recordings;
  for (const torch::Tensor& tensor : tensors) {
    if (const DeferredStorage* storage = DeferredStorage::of(tensor)) recordings.insert(recording_of(*storage));
  }
  return recordings;
}

}  // namespace

torch::Tensor value_of(const torch::Tensor& tensor) {
  const DeferredStorage* storage = DeferredStorage::of(tensor);
  return storage == nullptr ? tensor : recording_of(*storage)->value_of(tensor);
}

void write_value(const torch::Tensor& tensor, const torch::Tensor& place) {
  torch::NoGradGuard no_grad;
  const DeferredStorage* storage = DeferredStorage::of(tensor);
  if (storage == nullptr || !fits(tensor, place)) {
    place.copy_(value_of(tensor).detach());
    return;
  }
  const StorageBytes bytes{place.storage(), place.storage_offset() * place.element_size()};
  const torch::Tensor value = recording_of(*storage)->value_of(tensor, bytes);
  if (!value.is_alias_of(place)) place.copy_(value);
}

torch::Tensor zeros_for_values(int64_t numel, torch::Device device) {
  return page_memory(numel * static_cast<int64_t>(sizeof(float)), device).view(torch::kFloat32).zero_();
}

void make_real(const std::vector<torch::Tensor>& tensors) {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  // In the order of the construction, so that numbers are drawn once; every tensor of a storage, one of each.
  std::map<std::pair<Recording*, int>, std::map<const void*, torch::Tensor>> of_storage;
  const auto key_of = [](const DeferredStorage& storage) {
    return std::pair(recording_of(storage).get(), storage.number());
  };
  for (const torch::Tensor& tensor : tensors) {
    if (const DeferredStorage* storage = DeferredStorage::of(tensor)) {
      of_storage[key_of(*storage)].emplace(tensor.unsafeGetTensorImpl(), tensor);
    }
  }
  const auto recordings = recordings_of(tensors);
  for (const auto& recording : recordings) {
    for (const torch::Tensor& tensor : recording->held_tensors()) {
      const auto wanted = of_storage.find(key_of(*DeferredStorage::of(tensor)));
      if (wanted != of_storage.end()) wanted->second.emplace(tensor.unsafeGetTensorImpl(), tensor);
    }
  }
  for (auto& [key, group] : of_storage) {
    const torch::Tensor first = value_of(group.begin()->second);
    for (auto& [impl, tensor] : group) {
      tensor.set_data(torch::empty({0}, first.options().dtype(tensor.scalar_type()))
                          .set_(first.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides()));
    }
  }
}

void make_real_beside(const std::vector<torch::Tensor>& parameters, const std::vector<torch::Tensor>& others) {
  std::set<const DeferredStorage*> kept;
  for (const torch::Tensor& parameter : parameters) kept.insert(DeferredStorage::of(parameter));
  std::vector<torch::Tensor> wanted = others, all = parameters;
  all.insert(all.end(), others.begin(), others.end());
  for (const auto& recording : recordings_of(all)) {
    for (torch::Tensor& tensor : recording->held_tensors()) {
      // A tensor with a gradient is another module's parameter.
      if (!tensor.requires_grad() && !kept.contains(DeferredStorage::of(tensor))) wanted.push_back(std::move(tensor));
    }
  }
  make_real(wanted);
}

}  // namespace fsdp::deferred
