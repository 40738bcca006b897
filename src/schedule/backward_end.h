// The end of a backward: the ranks agree on what is left to reduce, reduce it, and nothing stays full for longer than
// it may. Also what a backward that threw leaves behind, and what no_sync scopes left with each rank.
#pragma once

#include <atomic>
#include <vector>

#include "schedule/executor.h"

namespace fsdp::schedule {

class BackwardEnd {
 public:
  // All outlive it. `local_sums` is set while backwards of no_sync scopes, on every rank, wait for their reduction.
  BackwardEnd(const Facts& facts, Schedule& schedule, StepMachine& machine, Agreement& agreement, Executor& executor,
              GradientSums& sums, std::atomic<bool>& local_sums)
      : facts_(facts),
        schedule_(schedule),
        machine_(machine),
        agreement_(agreement),
        executor_(executor),
        sums_(sums),
        local_sums_(local_sums) {}

  // This rank has come to the end. The ranks' largest counts. A collective.
  UnitCounts agree();
  // Makes the reductions that are left on any rank, and ends the backward. Returns the units that
  // Executor::end_reductions returned.
  std::vector<UnitId> finish(const UnitCounts& counts);
  // Takes part in the reductions that are begun by now.
  void reduce_rest(const UnitCounts& counts);
  // Reduces what the backwards of no_sync scopes left with each rank, where none outside of them followed. A collective
  // where there is something.
  void reduce_local_sums();
  // The backward threw.
  void abandon();
  // Gradients of no_sync scopes go.
  void drop_local_sums();

 private:
  const Facts& facts_;
  Schedule& schedule_;
  StepMachine& machine_;
  Agreement& agreement_;
  Executor& executor_;
  GradientSums& sums_;
  std::atomic<bool>& local_sums_;
};

}  // namespace fsdp::schedule
