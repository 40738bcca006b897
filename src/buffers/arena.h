// The memory for full units and for gradients on their way: a fixed number of buffers of each kind, allocated when
// first used and then kept, so that no step allocates.
//
// In builds with FSDP_POISON a released buffer is filled with NaN, so that a use without a gather shows. Not for
// concurrent use.
#pragma once

#include <torch/types.h>

#include <vector>

namespace fsdp::buffers {

// fp32 NaN in every element where this build poisons.
void poison(torch::Tensor buffer);
bool poisons();

// One kind of buffer.
class Pool {
 public:
  // Buffers that units share have `shared_numel` elements; 0: each belongs to one unit and is as large as that.
  explicit Pool(int64_t shared_numel) : shared_numel_(shared_numel) {}
  // The first `numel` elements of buffer `index`; the same memory each time.
  torch::Tensor at(int index, int64_t numel);
  void release(int index) { poison(buffers_.at(index)); }
  int64_t bytes() const;

 private:
  int64_t shared_numel_;
  std::vector<torch::Tensor> buffers_;
};

struct Arena {
  Pool full;       // full parameters of a unit
  Pool gradients;  // full gradients of a unit
  Pool staging;    // the peers' gradients of this rank's shard
};

}  // namespace fsdp::buffers
