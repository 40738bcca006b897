// A unit's reductions among the ranks of one host. Each rank adds up its slice of the offered gradients
// (host_gradients.h). Replicas of a shard then copy each other's slices, from sum to sum.
//
// The slice is added up as soon as every rank has offered its gradients and this rank comes by: when it begins a
// reduction, of this or another unit, or waits for anything. One reduction of a unit is under way at a time. Plain
// memory, no tensors; one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/shm/host_gradients.h"
#include "collectives/shm/ranks.h"
#include "layout/gradient_layout.h"

namespace fsdp::collectives::shm {

// The sum that a reduction adds to: as long as the shard in the gradient layout. It may be the gradients' own memory,
// where the shard is the whole unit.
struct SumOfShard {
  float* values = nullptr;
  std::vector<uint8_t>* held = nullptr;  // per parameter: whether there is a gradient of it
  uint64_t address = 0;                  // of the values in this rank's memory, for replicas
};

class SharedMemoryReduction final : public Work {
 public:
  // `replicas` are the other ranks with this rank's shard.
  SharedMemoryReduction(HostGradients gradients, std::vector<int> replicas);
  ~SharedMemoryReduction() override { gradients_.ranks().withdraw(*this); }

  bool under_way() const { return layout_ != nullptr; }
  // Offers the gradients that begin at `address` in this rank's memory, and stay there until `wait` returns.
  void begin(const layout::GradientLayout& layout, uint64_t address, const std::vector<uint8_t>& present,
             const SumOfShard& sum);
  bool advance() override;
  // Returns true when every rank has begun the reduction under way. Returns false if a rank cannot begin it before this
  // rank continues, because it waits itself.
  bool wait_begun();
  // Returns when the sum is complete and no rank adds up this rank's gradients; replicas may still copy from the sum.
  void wait();
  // Returns when they have.
  void wait_copied() { gradients_.wait_copied(replicas_); }
  bool is_copied() const { return gradients_.is_copied(replicas_); }

 private:
  int rank() const { return gradients_.ranks().rank(); }
  void add_up();
  void copy_from_replicas();

  HostGradients gradients_;
  std::vector<int> replicas_;
  // The layout of the reduction under way.
  const layout::GradientLayout* layout_ = nullptr;
  SumOfShard sum_;
  bool summed_ = false;
  OfferedSlice slice_;  // kept, so that no reduction allocates
};

}  // namespace fsdp::collectives::shm
