// Measures the tensors that recomputed blocks would keep otherwise, and the time of their second runs. In the measured
// steps each block keeps only its inputs, so measuring needs no more memory.
//
//   call    begins ──▶ its first run: what it saves, which results, how long ──▶ ends ──▶ runs again, or is dropped
//   bytes   of all activations, at most, while no block behind number i is between its forward and its second run
//
// Storages are marked, not held. Threads: any, as calls are made and dropped on any.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "interpose/activation_count.h"

namespace fsdp::interpose {

// A storage, existing or not: while this lives, no other storage has its address.
class StorageMark {
 public:
  // The mark of a tensor with a storage.
  explicit StorageMark(const torch::Tensor& tensor)
      : storage_(tensor.storage().getWeakStorageImpl()), bytes_(static_cast<int64_t>(tensor.storage().nbytes())) {}
  const void* address() const { return storage_._unsafe_get_target(); }
  int64_t bytes() const { return bytes_; }

 private:
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  int64_t bytes_;
};
using StorageMarks = std::vector<StorageMark>;

// Storages of a call's first run.
struct CallFacts {
  StorageMarks saved;          // in any order, maybe several times
  StorageMarks products;       // results that KeptResults::Products keeps
  double seconds = 0;          // of the operators up to the last tensor that is saved
  double product_seconds = 0;  // of those whose results are kept
};

class MeasuredBlocks {
 public:
  using Storages = ActivationCount::Storages;

  // Storages beyond the inputs.
  struct Kept {
    Storages products, all;
    Storages unsaved_products;  // of the products
  };
  struct Block {
    std::optional<size_t> place;  // in the order of their first calls; none: it was not called
    Kept most;                    // of all calls that were open at once
    double seconds = 0;           // of the second runs of a period
    double seconds_without_products = 0;
  };
  struct Facts {
    std::vector<Block> blocks;
    std::vector<int64_t> peaks;  // by how many blocks, in the order of their places, may be open
    size_t called = 0;           // blocks
  };

  // `count` is of the activations of the model that has the blocks.
  MeasuredBlocks(size_t blocks, std::shared_ptr<ActivationCount> count);

  // The tensor's storage does not count as an activation.
  void leave_out(const torch::Tensor& tensor);
  // Has the number of blocks that may be open at each of the count's moments put in here.
  void tell_moments(const std::vector<ActivationCount::Moment>& moments, std::vector<size_t>& open_at);
  void end_moments();

  // All so far. The times of each block are the maximum over all periods; a period is from no open call to none.
  Facts facts();

  // Begins a call of that block, which keeps its inputs from now on. `call`: the same address in all three.
  void begins(size_t block, const void* call, const StorageMarks& inputs);
  void ends(size_t block, const void* call, const CallFacts& facts);
  // It runs again, or is dropped.
  void closes(size_t block, const void* call);
  // It ran again, and may once more: what it keeps then stays for longer than its backward.
  void is_retained();

 private:
  struct OpenCall {
    const void* call;
    Kept kept;  // after its first run
  };
  struct Measured {
    Block facts;
    std::vector<OpenCall> open;
    double seconds = 0, seconds_without_products = 0;  // of this period
  };

  // `closed`: a call that is not open any more; may be null.
  static void note_most(Measured& measured, Storages Kept::*storages, const Kept* closed);
  void note_peak();
  void end_period();
  size_t open_places() const;

  std::mutex mutex_;
  std::shared_ptr<ActivationCount> count_;
  std::vector<Measured> blocks_;
  std::vector<int64_t> peaks_;
  size_t places_ = 0;  // of blocks that were called
  int open_ = 0;       // calls
  bool retained_ = false;
  std::unordered_map<const void*, StorageMark> inputs_;    // of this period
  std::unordered_map<const void*, StorageMark> left_out_;  // always
  const std::vector<ActivationCount::Moment>* moments_ = nullptr;
  std::vector<size_t>* open_at_ = nullptr;  // by moment
};

}  // namespace fsdp::interpose
