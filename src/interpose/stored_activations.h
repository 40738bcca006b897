// Saved tensors whose bytes lie in a store, instead of in memory, until a backward asks for them. Bytes come back as
// they were, so gradients have the same bits. This is torch.autograd.graph.save_on_cpu, with these rules:
//
// - Stored are tensors that a forward saves, of at least so many bytes. Tensors saved during a backward (a block that
//   runs again, create_graph) are needed at once, and stay. So do parameters, the module's buffers, views of less than
//   an eighth of their storage (rows of a data set), and tensors that are more than a strided range of memory.
// - A storage is stored once and whole, however many tensors share it, and a view comes back as a view. If the tensor
//   itself still has another holder, the backward gets that tensor.
// - A tensor that was changed in place after it was saved is autograd's own error.
#pragma once

#include <c10/core/Storage.h>
#include <c10/util/flat_hash_map.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "interpose/activation_count.h"
#include "interpose/saved_tensors.h"
#include "memory/byte_store.h"

namespace fsdp::interpose {

class StoredStorage;

// The stored tensors of one model. Threads: any, as of graphs.
class StoredActivations : public std::enable_shared_from_this<StoredActivations> {
 public:
  struct Rules {
    torch::Device device = torch::kCPU;       // others' tensors stay
    int64_t least_bytes = 0;                  // of a storage
    std::vector<torch::Tensor> staying = {};  // with what shares their storages
  };

  // `count` is told of what is stored.
  StoredActivations(std::shared_ptr<memory::ByteStore> store, Rules rules, std::shared_ptr<ActivationCount> count);

  // True if a tensor that is saved now is to be stored.
  bool takes(const torch::Tensor& activation) const;
  // Its storage, stored. Throws Error where there is no room.
  std::shared_ptr<StoredStorage> put(const torch::Tensor& activation);

 private:
  friend class StoredStorage;
  using Address = const void*;

  void forget(Address storage, const StoredStorage* stored) noexcept;

  std::shared_ptr<memory::ByteStore> store_;
  Rules rules_;
  std::shared_ptr<ActivationCount> count_;
  std::mutex mutex_;
  struct Known {
    std::weak_ptr<StoredStorage> stored;
    const StoredStorage* address = nullptr;  // of the latest for the storage
  };
  ska::flat_hash_map<Address, Known> known_;
};

// Has tensors stored that `stored` takes, and kept by `in_memory` otherwise.
std::shared_ptr<SavedTensorKeeper> storing_keeper(std::shared_ptr<StoredActivations> stored,
                                                  std::shared_ptr<SavedTensorKeeper> in_memory);

}  // namespace fsdp::interpose
