// Counts a model's activations: the bytes of tensors that autograd saves for a backward. A tensor counts from its first
// save by a node until the last such node frees it.
//
// Tensors that share a storage are counted once, with all of its bytes, for the unit that was in use when the first of
// them was saved. Parameters of sharded units are left out, as is what has no storage of its own (sparse tensors).
// Tensors stored outside memory (stored_activations.h) are counted separately.
#pragma once

#include <c10/util/flat_hash_map.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "interpose/saved_tensors.h"

namespace fsdp::interpose {

class StoredActivations;

// Threads: any, as graphs are made and dropped on any.
class ActivationCount {
 public:
  using Storages = std::vector<int64_t>;  // in bytes each, the largest first
  struct Moment {
    Storages in_memory, elsewhere;
  };

  // `moments`, where there is one, gets what is kept each time before something is given up, until `end_moments`.
  explicit ActivationCount(size_t units, std::vector<Moment>* moments = nullptr)
      : now_(units), at_peak_(units), moments_(moments) {}

  // In bytes, by unit.
  struct Bytes {
    std::vector<int64_t> now;
    std::vector<int64_t> at_peak;                      // when their sum was largest
    int64_t elsewhere_now = 0, elsewhere_at_peak = 0;  // of all units; its own peak
  };
  Bytes bytes() const;
  // The tensors kept in memory now.
  Storages storages() const;
  void end_moments();
  // Now is one, too.
  void add_moment();
  // From now on the peak is that of what comes, and of what is there now.
  void begin_peak();
  // The most bytes, of all units together, that there were since the last call.
  int64_t take_peak();
  // The same for a trace, since the trace's last call.
  int64_t take_traced_peak();

  // A storage is known by its address, which is unique until `give_up` was called as often.
  void keep(const void* storage, int64_t bytes, int unit);
  // The same for tensors stored elsewhere, under a unique address.
  void keep_elsewhere(const void* stored, int64_t bytes);
  void give_up(const void* storage) noexcept;
  // True if it is held now.
  bool is_kept(const void* storage) const;
  // The tensor's storage, which outlives this, does not count as an activation.
  void leave_out(const torch::Tensor& tensor);

 private:
  struct Kept {
    int64_t bytes = 0;
    int unit = 0;  // or kElsewhere
    int holders = 0;
  };
  static constexpr int kElsewhere = -1;

  void note_peak();
  void note_moment();
  Storages kept_storages(bool elsewhere) const;

  mutable std::mutex mutex_;
  ska::flat_hash_map<const void*, Kept> storages_;
  std::vector<int64_t> now_, at_peak_;
  int64_t sum_ = 0, peak_ = 0;  // the peak so far, as it was noted last
  int64_t taken_peak_ = 0;      // since `take_peak`, as it was noted last
  int64_t traced_peak_ = 0;     // since `take_traced_peak`
  int64_t elsewhere_ = 0, elsewhere_peak_ = 0;
  std::vector<Moment>* moments_;
  bool grew_ = false;  // since the last moment
};

// Has tensors counted for that unit, and kept as autograd keeps them.
std::shared_ptr<SavedTensorKeeper> counting_keeper(std::shared_ptr<ActivationCount> count, int unit);

// Watches the tensors that are saved on threads that use a model, and has them counted; autograd's graph outlives it.
class ActivationWatch {
 public:
  explicit ActivationWatch(size_t units);
  // From now on tensors are stored that `stored` takes; it counts in `count()`.
  void store(const std::shared_ptr<StoredActivations>& stored);

  // From now on this thread saves tensors for this unit, and for no other model.
  void unit_in_use(int unit) { watch_saved_tensors(keepers_[static_cast<size_t>(unit)]); }
  // It saves them for no model.
  static void none_in_use() { watch_saved_tensors(nullptr); }

  const std::shared_ptr<ActivationCount>& count() const { return count_; }

 private:
  std::shared_ptr<ActivationCount> count_;
  std::vector<std::shared_ptr<SavedTensorKeeper>> keepers_;  // by unit
};

}  // namespace fsdp::interpose
