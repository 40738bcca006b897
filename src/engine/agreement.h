// The messages between ranks while a step runs: rounds (schedule/round.h), and whether any rank has a batch.
//
// A round is an all-gather of a few numbers per unit. If the backend cannot join peers' gathers, all ranks with a batch
// must be at the same activity.
//
// Owned by the model, whose lock covers all calls. Calls that are collectives say so; the caller runs them in
// Executor::guarded, as nothing can be exchanged after one that failed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/group.h"
#include "engine/sharded_unit.h"
#include "report/recorder.h"
#include "schedule/round.h"
#include "schedule/schedule.h"

namespace fsdp::engine {

using report::Activity;
using report::kNoUnit;
using report::Recorder;
using schedule::UnitCounts;

class Agreement {
 public:
  // All outlive it.
  Agreement(collectives::Group& group, const Units& units, const schedule::Schedule& schedule, Recorder& recorder);

  // True if any rank has a batch for the next backward; `plans` are this rank's. Ranks without one follow the others
  // until that backward ends. A collective.
  bool any_has_batch(bool here, const std::vector<int>& plans);
  void backward_ends() { followed_ = follows_ = false; }
  bool followed() const { return followed_; }  // some rank has no batch
  bool follows() const { return follows_; }    // this one
  // True if all ranks had the same plans then: one may have gone another way.
  bool plans_alike() const { return plans_alike_; }

  // Enters a round: `report` has the activity, its unit and operator, written values, and the counts; the rest is
  // filled in here. A collective.
  schedule::Round enter_round(schedule::RankReport report);
  // True if all ranks reported in the last round that their reductions were as in the backward before.
  bool reductions_as_before() const { return as_before_; }
  // This rank has begun a gather that the plan foresaw.
  void has_begun(int unit) { begun_.push_back(unit); }
  // True if gathers outside of plans need rounds, also at the end of a backward that reduces nothing.
  bool in_rounds() const;

 private:
  std::vector<torch::Tensor> all_gather(const torch::Tensor& message, const std::string& purpose);
  std::vector<int> exchange_gathers(const schedule::RankReports& reports);

  collectives::Group& group_;
  const Units& units_;
  const schedule::Schedule& schedule_;
  Recorder& recorder_;
  std::vector<std::string> names_;  // of the units
  std::vector<uint8_t> sharers_;    // by rank: it has the same shards as this one
  bool as_before_ = false;
  std::vector<int> begun_;  // gathers that the plan foresaw, since the last round
  bool followed_ = false;
  bool follows_ = false;
  bool plans_alike_ = true;
};

}  // namespace fsdp::engine
