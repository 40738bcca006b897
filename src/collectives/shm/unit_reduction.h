// A unit's reductions in shared memory: each rank reads the peers' gradients where they lie and adds up its slice, in
// rank order; replicas of a shard then take each other's slices.
//
// The slice is added up as soon as every rank has offered its gradients and this rank comes by: when it begins a
// reduction, of this or another unit, or waits for anything. One reduction of a unit is under way at a time. Plain
// memory, no tensors; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/ordered_sum.h"
#include "collectives/shm/control.h"
#include "collectives/shm/rank_memory.h"
#include "collectives/shm/ranks.h"
#include "collectives/shm/unit_counters.h"
#include "layout/gradient_layout.h"

namespace fsdp::collectives::shm {

// A rank's part in a unit, in this process.
struct UnitMember {
  UnitControl* control = nullptr;
  RankMemory* memory = nullptr;  // where the addresses in `control` lie
  bool replica = false;          // another rank with the same shard
};

class SharedMemoryReduction final : public Work {
 public:
  // `members` by rank; their memory outlives this. `unit` is how messages call it.
  SharedMemoryReduction(Ranks& ranks, UnitCounters& counters, std::vector<UnitMember> members, ElementType type,
                        const std::string& unit);
  ~SharedMemoryReduction() override { ranks_->withdraw(*this); }

  bool under_way() const { return layout_ != nullptr; }
  // Offers the gradients that begin at `gradients` in this rank's memory, and stay there until `wait` returns. `sum` is
  // as long as the shard in the layout; it and `held` are added to until then.
  void begin(const layout::GradientLayout& layout, uint64_t gradients, const std::vector<uint8_t>& present, float* sum,
             std::vector<uint8_t>& held);
  bool advance() override;
  // Returns true when every rank has begun the reduction under way; false when those that have not cannot before this
  // rank goes on: they wait themselves.
  bool wait_begun();
  // Returns when the sum is complete and no rank reads this rank's gradients.
  void wait();

 private:
  float* summed_slice(int rank) const;
  void add_up();
  void take_from_replicas();

  Ranks* ranks_;
  UnitCounters* counters_;
  std::vector<UnitMember> members_;
  ElementType type_;
  std::string unit_;  // its name
  std::string purpose_;
  bool has_replicas_;
  // Of the reduction under way.
  const layout::GradientLayout* layout_ = nullptr;
  float* sum_ = nullptr;
  std::vector<uint8_t>* held_ = nullptr;
  bool summed_ = false;
  // Kept, so that no reduction allocates.
  std::vector<layout::Range> segments_;
  std::vector<Addend> addends_;
};

}  // namespace fsdp::collectives::shm
