// Performs the schedule's actions on units, buffers and collectives.
//
// It does what it is told and knows no reasons. Its first error poisons it: ranks no longer agree on what was
// exchanged, so every later call throws the same again. The model's lock covers all calls.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/failure_latch.h"
#include "buffers/arena.h"
#include "engine/agreement.h"
#include "engine/sharded_unit.h"
#include "schedule/schedule.h"
#include "schedule/step_machine.h"

namespace fsdp::engine {

class Executor {
 public:
  // All outlive it. `agreement` is told of each gather that no plan foresaw.
  Executor(Units& units, collectives::Group& group, schedule::Schedule& schedule, const schedule::StepMachine& machine,
           Agreement& agreement, Recorder& recorder, buffers::Arena arena);

  // `operation` names the operator that the actions are for, if there is one.
  void perform(const schedule::Actions& actions, std::string_view operation = {});
  // Begins gathers for the next micro-batch, in the order that ranks have in common or in any.
  void gather_ahead(const schedule::Actions& gathers, collectives::Order order);
  // Between a release and a gather of a full unit, which so comes to lie where it was, `change` writes and publishes
  // its shard.
  void gather_again(int unit, const std::function<void()>& change);
  // Takes part in the gathers of a round. `own`: this rank's own gather, if it has one.
  void take_part(const schedule::Round& round, const schedule::Action* own = nullptr);
  // All ranks have ended a backward. Does nothing if gathers need no rounds.
  void all_ended_backward();
  // Stores or adds a gradient where the unit's are completed.
  void write_gradient(int unit, int parameter, torch::Tensor gradient);
  // A backward's reductions are over (Group::reductions_end). Frees the buffers that the schedule has given up. Returns
  // the units whose sums turned out to hold gradients of other parameters, and corrects these sums.
  std::vector<int> reductions_end(bool everywhere);
  // Waits for what replicas of the shards add up.
  void wait_sums();

  // Runs `body`, which talks to other ranks, unless something failed before.
  template <typename Body>
  auto guarded(Body body) {
    return latch_.run(std::move(body));
  }
  void check_not_failed() const { latch_.check(); }
  bool failed() const { return latch_.failed(); }

  // Begun for the next micro-batch, and not waited for.
  bool gathers_ahead(int unit) const { return gathered_ahead_[unit] != 0; }
  const CommunicationReport& communication() const { return communication_; }
  void count_late_gradient() { ++communication_.late_gradients; }
  const buffers::Arena& arena() const { return arena_; }

 private:
  void perform(const schedule::Action& action, std::string_view operation);
  void release(const schedule::Action& action);
  void gather(const schedule::Action& action, collectives::Order order, std::string_view operation = {});
  void begin_gather(const schedule::Action& action, collectives::Order order);
  void gather_for_others(int unit);
  void await_peers(int unit);
  void* wait_gather(int unit);
  // Where a gather of the unit goes: undefined where the backend hands out memory of its own.
  torch::Tensor buffer_for(const ShardedUnit& unit, int buffer);
  void count_gather(const ShardedUnit& unit, bool foreseen);
  void open_gradient(const schedule::Action& action);
  // True if the unit's sum can take the place of the gradients in the buffer.
  bool sums_in_place(const ShardedUnit& unit, int buffer) const;
  void reduce(const schedule::Action& action);
  void wait_buffer(const schedule::Action& action);
  void wait_reduction(const schedule::Action& action);
  void finish_reduction(const schedule::Action& action);
  // One rank's gradients are their own sum: they stay where autograd made them.
  bool alone() const { return group_.size() == 1; }

  Units& units_;
  collectives::Group& group_;
  schedule::Schedule& schedule_;
  const schedule::StepMachine& machine_;
  Agreement& agreement_;
  Recorder& recorder_;
  buffers::Arena arena_;
  memory::SideStream to_host_;           // for one rank alone whose shards lie on the host
  std::vector<uint8_t> gathered_ahead_;  // per unit: from peers, for the next micro-batch, where it counts
  CommunicationReport communication_;
  FailureLatch latch_;
};

}  // namespace fsdp::engine
