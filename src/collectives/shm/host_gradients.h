// The gradients of a unit that the ranks of a host offer each other for a reduction, where they lie in shared memory.
//
// A rank offers its gradients. When all have offered, each adds up its slices in rank order, and marks that it has read
// them. When all have read, the gradients may change, and replicas of a shard copy each other's slices from their sums.
// On one host that is the whole reduction, and the calling thread does it (unit_reduction.h). Over several hosts sums
// pass from host to host, and a task beside the caller does it (hosts/unit_reduction.h): threads and messages that
// ranks of one host would only pay for.
//
// One reduction of a unit is under way at a time. Plain memory, no tensors. One thread at a time, but for `take`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/ordered_sum.h"
#include "collectives/shm/ranks.h"
#include "collectives/shm/unit_counters.h"
#include "layout/gradient_layout.h"

namespace fsdp::collectives::shm {

// The gradients of one rank's slice, as `add_in_order` takes them.
struct OfferedSlice {
  std::vector<layout::Range> segments;  // by parameter
  std::vector<Addend> addends;          // of the host's ranks, in their order
};

class HostGradients {
 public:
  // `members` by the ranks' numbers on the host; their memory outlives this. `unit` is how messages call it.
  HostGradients(Ranks& ranks, std::vector<UnitMember> members, ElementType type, std::string unit);

  Ranks& ranks() const { return *ranks_; }
  const UnitMember& member(int number) const { return members_[number]; }
  ElementType type() const { return type_; }
  const std::string& unit() const { return unit_; }
  const std::string& purpose() const { return purpose_; }  // of a wait, for messages

  // This rank's gradients begin at `address` in its memory, and stay there until `wait_taken` returns.
  void offer(uint64_t address, std::span<const uint8_t> present);
  bool has_offered(int number) const { return counters_.has_offered(*members_[number].control); }
  bool all_have_offered() const;
  // A Presence per parameter, of a rank that has offered.
  std::span<const uint8_t> presence_of(int number) const;
  // Sets `slice` to that of rank `owner` of the layout, once all have offered. Allocates nothing the next time.
  void find(const layout::GradientLayout& layout, int owner, OfferedSlice& slice) const;
  // This rank reads the peers' gradients no more. From any thread.
  void take();
  // Returns when no peer reads this rank's gradients. Throws WaitFailure.
  void wait_taken();

  // Before `offer`, where there are replicas: the sum of this rank's shard begins at `address` in its memory.
  void show_sum(uint64_t address);
  // That of a replica, which stays as it is until this rank has said that it copied from it.
  float* sum_of(int number) const;
  void copied();
  // True if no replica copies from this rank's sum any more.
  bool is_copied(const std::vector<int>& replicas) const;
  // Returns when none does. Throws WaitFailure.
  void wait_copied(const std::vector<int>& replicas);

 private:
  bool has_copied(int replica) const { return counters_.has_copied(*members_[replica].control); }

  Ranks* ranks_;
  std::vector<UnitMember> members_;
  ElementType type_;
  std::string unit_, purpose_;
  size_t parameters_ = 0;  // of the reduction under way
  UnitCounters counters_;
};

}  // namespace fsdp::collectives::shm
