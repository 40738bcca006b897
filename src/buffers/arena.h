// The memory for full units and for gradients on their way: a fixed number of buffers of each kind, allocated when
// first used and then kept, so that no step allocates.
//
// In builds with FSDP_POISON a released buffer is filled with NaN, so that a use without a gather shows. Not for
// concurrent use.
#pragma once

#include <torch/types.h>

#include <functional>
#include <utility>
#include <vector>

namespace fsdp::buffers {

// Every bit set, where this build poisons: a NaN in every floating dtype.
void poison(const torch::Tensor& buffer);
bool poisons();

// Where a buffer comes from: [bytes] of uint8.
using Allocate = std::function<torch::Tensor(int64_t bytes)>;
Allocate allocate_plain(torch::Device device);

// One kind of buffer.
class Pool {
 public:
  // The first `shared` buffers serve any unit and have `shared_bytes`; each other is as large as its largest use.
  Pool(int shared, int64_t shared_bytes, Allocate allocate = allocate_plain(torch::kCPU))
      : shared_(shared), shared_bytes_(shared_bytes), allocate_(std::move(allocate)) {}
  // Buffer `index` as [numel] of `dtype`; the same memory each time.
  torch::Tensor at(int index, int64_t numel, torch::ScalarType dtype);
  void release(int index) {
    if (buffers_.at(index).defined()) poison(buffers_[index]);
  }
  // The buffer's memory belongs to its other holders; it will be made anew, unless it is taken back before.
  void give_away(int index) { buffers_.at(index).reset(); }
  // `memory`, which has no other holder, is buffer `index` again, which was none before.
  void take_back(int index, const torch::Tensor& memory);
  bool has(int index) const { return index < static_cast<int>(buffers_.size()) && buffers_[index].defined(); }
  // True if buffer `index` serves any unit.
  bool is_shared(int index) const { return index < shared_; }
  // The contents of buffer `from` stay where they are and are buffer `to` from now on, which was none before.
  void move(int from, int to);
  // Frees all buffers but the first `count`.
  void keep(int count) {
    if (count < static_cast<int>(buffers_.size())) buffers_.resize(count);
  }
  int64_t bytes() const;

 private:
  int shared_;
  int64_t shared_bytes_;
  Allocate allocate_;
  std::vector<torch::Tensor> buffers_;
};

struct Arena {
  Pool full;       // full parameters of a unit
  Pool gradients;  // full gradients of a unit
  Pool staging;    // the peers' gradients of this rank's shard
};

}  // namespace fsdp::buffers
