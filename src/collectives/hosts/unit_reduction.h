// A unit's reductions over several hosts, in rank order: a sum passes from host to host, and each host adds up its
// ranks' gradients (shm/host_gradients.h) to it (running_sums.h).
//
// Flags go from every rank to every other directly, so that each knows who has begun, and which sums hold what. When
// all are here a task beside the rank's own thread does the rest. One reduction of a unit is under way at a time; the
// calls come from one thread. Its many members are the messages of the reduction under way and what they move, which
// has to outlive them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/group.h"
#include "collectives/hosts/background_task.h"
#include "collectives/hosts/context.h"
#include "collectives/hosts/running_sums.h"
#include "collectives/replica_sums.h"
#include "collectives/shm/host_gradients.h"

namespace fsdp::collectives::hosts {

class HostsReduction {
 public:
  // `members` by their numbers on this host; their memory outlives this.
  HostsReduction(HostsContext& context, const std::vector<shm::UnitMember>& members, const GroupUnitSpec& spec);

  // In elements of the unit's gradient_dtype.
  int64_t staging_numel(const layout::GradientLayout& layout) const {
    return RunningSums::staging_numel(*context_, layout, host_gradients_.type());
  }
  bool under_way() const { return sum_ != nullptr; }

  // The calls throw Error, and leave the group poisoned.
  void begin(Gradients gradients, uint64_t address, GradientSum& sum);
  bool wait_begun();
  void wait();
  void wait_sum();

 private:
  void exchange_flags();
  void run();
  void check_flags() const;
  void note_held();

  HostsContext* context_;
  int unit_;
  std::string prefix_;
  shm::HostGradients host_gradients_;
  // The gradients of the reduction under way. Messages after the memory that they move: they are destroyed first.
  Gradients gradients_;
  GradientSum* sum_ = nullptr;
  std::vector<std::vector<uint8_t>> flags_;  // of each rank: running_sums.h
  Messages flags_arrivals_;                  // of each peer
  Messages flags_sends_;
  Messages replicas_;  // of the reduction before
  std::optional<RunningSums> running_;
  ReplicaSums replica_sums_;
  BackgroundTask task_;  // ends before what it uses
};

}  // namespace fsdp::collectives::hosts
