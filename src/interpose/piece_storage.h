// The storage behind a rank's pieces of the parameters, or behind their gradients: plain memory that stays where it is,
// which operators must not read or write unannounced.
//
// So any optimizer can be run on pieces: before it reads a gradient the gradient's sum is ended, and before it writes a
// piece the peers' reads of it are over. Not for concurrent use.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <utility>

#include "interpose/key.h"
#include "interpose/libtorch_versions.h"
#include "interpose/listener.h"

namespace fsdp::interpose {

class PieceStorage final : public c10::StorageImpl {
 public:
  enum class Holds { Parameters, Gradients };
  // The state of a gradient, set by the listener: backwards still add to it, or not.
  enum class Sum : uint8_t {
    Open,
    Ended,   // it was read or written as a gradient that is complete
    Zeroed,  // and then set to zero: backwards add to it again
  };

  PieceStorage(const torch::Tensor& memory, Holds holds, std::shared_ptr<Link> link);

  Holds holds() const { return holds_; }
  // The elements, as a tensor without notice of its uses.
  const torch::Tensor& memory() const { return memory_; }
  const std::shared_ptr<Link>& link() const { return link_; }

  // Access without an operator (data_ptr, accessor) throws this message, until it is allowed again. As operators get at
  // the bytes in this way, too, the listener allows it before one runs.
  void refuse_access(std::string message) { release_data_and_set_meta_custom_data_ptr_error_msg_(std::move(message)); }
  void allow_access() { allow_data_access(*this); }

  Sum sum() const { return sum_; }
  void set_sum(Sum sum) { sum_ = sum; }

  // The storage behind a tensor; null for any other tensor.
  static PieceStorage* of(const at::TensorBase& tensor);

 private:
  torch::Tensor memory_;
  Holds holds_;
  std::shared_ptr<Link> link_;
  Sum sum_ = Sum::Open;
};

// A tensor over the elements of `plain`, which is contiguous; the link's listener is told of its uses.
torch::Tensor watched(const torch::Tensor& plain, PieceStorage::Holds holds, const std::shared_ptr<Link>& link);

// The elements of such a tensor, 1-D, as a tensor without notice of its uses; any other tensor, detached.
torch::Tensor plain(const torch::Tensor& tensor);

// For the library's own work, on pieces and on messages between ranks, which is not part of a recomputed function.
// While this lives, this thread's operators are not watched, and their results are not kept.
class Unwatched {
 public:
  Unwatched() : unseen_(c10::DispatchKeySet({kKey, kResultsKey})) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard unseen_;
};

}  // namespace fsdp::interpose
