// A unit's reductions over several hosts: each host adds up its ranks' gradients in shared memory, in their order, and
// then each rank adds up the hosts' sums of its slice, in theirs.
//
// Every slice crosses the network once a host, as fp32: the rank that adds it up for its host is the counterpart of the
// one that owns it. It does so when all of its host have offered their gradients and it comes by (shm/ranks.h,
// progress.h). Flags go from every rank to every other directly, so that each knows who has begun, and which sums hold
// what. One reduction of a unit is under way at a time; one thread at a time.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "collectives/group.h"
#include "collectives/hosts/context.h"
#include "collectives/ordered_sum.h"
#include "collectives/replica_sums.h"
#include "collectives/shm/unit_counters.h"
#include "collectives/shm/unit_reduction.h"

namespace fsdp::collectives::hosts {

class HostsReduction final : public shm::Work {
 public:
  // `members` by their numbers on this host; their memory outlives this.
  HostsReduction(HostsContext& context, std::vector<shm::UnitMember> members, const GroupUnitSpec& spec);
  ~HostsReduction() override { context_->ranks().withdraw(*this); }

  // In elements of the unit's gradient_dtype.
  int64_t staging_numel(const layout::GradientLayout& layout) const;
  bool under_way() const { return sum_ != nullptr; }

  // The calls throw Error, and leave the group poisoned.
  void begin(Gradients gradients, uint64_t address, GradientSum& sum);
  bool wait_begun();
  void wait();
  void wait_sum();

  bool advance() override;

 private:
  void exchange_flags();
  void receive_sums();
  void lay_out_staging();
  void add_up_host();
  void add_up_hosts();
  std::vector<layout::Range> segments_of(int rank) const;
  std::vector<uint8_t> present_on(int host) const;
  int slice_tag() const;

  HostsContext* context_;
  int unit_;
  std::string prefix_, unit_name_, purpose_;
  ElementType type_;
  std::vector<shm::UnitMember> members_;
  shm::UnitCounters counters_;
  // Of the reduction under way. Messages after the memory that they move: they are destroyed first.
  Gradients gradients_;
  GradientSum* sum_ = nullptr;
  std::vector<std::vector<uint8_t>> present_;  // of each rank, and one more
  std::vector<float*> own_sums_;               // by host: this host's sum of its counterpart's slice
  std::vector<float*> host_sums_;              // by host: its sum of this rank's slice
  bool summed_ = false;
  std::exception_ptr failure_;  // of what `advance` did
  Messages flags_;              // of each peer: it has begun
  Messages receives_;
  Messages sends_;
  ReplicaSums replica_sums_;
};

}  // namespace fsdp::collectives::hosts
