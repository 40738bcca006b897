// The end of a backward: the ranks agree on what is left to reduce, reduce it, and nothing stays full for longer than
// it may. Also what a backward that threw leaves behind, and what no_sync scopes left with each rank.
//
// The model's lock covers all calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/agreement.h"
#include "engine/executor.h"
#include "interpose/listener.h"
#include "schedule/schedule.h"
#include "schedule/step_machine.h"

namespace fsdp::engine {

class PostBackward {
 public:
  // All outlive it.
  PostBackward(Executor& executor, collectives::Group& group, Units& units, schedule::Schedule& schedule,
               schedule::StepMachine& machine, Agreement& agreement, interpose::Link& link)
      : executor_(executor),
        group_(group),
        units_(units),
        schedule_(schedule),
        machine_(machine),
        agreement_(agreement),
        local_sums_(link.local_sums) {}

  // This rank has come to the end. The ranks' largest counts. A collective.
  UnitCounts agree();
  // Makes the reductions that are left on any rank, and ends the backward. Returns the units that
  // Executor::reductions_end returned.
  std::vector<int> finish(const UnitCounts& counts);
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
  bool alone() const { return group_.size() == 1; }
  void settle_open_units();

  Executor& executor_;
  collectives::Group& group_;
  Units& units_;
  schedule::Schedule& schedule_;
  schedule::StepMachine& machine_;
  Agreement& agreement_;
  std::atomic<bool>& local_sums_;  // backwards of no_sync scopes came, on every rank, since the last reductions
};

}  // namespace fsdp::engine
