// What ranks tell each other while a step runs: which unit they gather where no plan says it, what is left to reduce at
// the end of backward, and who has a batch at all.
//
// Whatever tells something is a collective, and throws Error, on every rank, where ranks that have a batch do different
// things. Not for concurrent use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/group.h"
#include "engine/sharded_unit.h"
#include "report/recorder.h"
#include "schedule/schedule.h"

namespace fsdp::engine {

using report::Activity;
using report::kNoUnit;
using report::Recorder;

// What a rank tells of a backward. Four numbers per unit: those of schedule::Reductions::account, each for all units,
// and whether the unit's shard has changed already.
using Account = std::vector<int64_t>;

// At the end of the backward, and in its midst, where only the reductions that were begun count.
Account account_at_end(const schedule::Schedule& schedule);
Account account_so_far(const schedule::Schedule& schedule);
// A unit that changed before the end of the backward on some rank, and of which some rank has more gradients than were
// reduced by then.
std::optional<int> changed_too_early(const Account& account);

class Agreement {
 public:
  // All three outlive it.
  Agreement(collectives::Group& group, const Units& units, Recorder& recorder)
      : group_(group), units_(units), recorder_(recorder) {}

  // Whether any rank has a batch for the next backward; `plans` are this rank's. Ranks without one follow the others
  // until that backward ends.
  bool any_has_batch(bool here, const std::vector<int>& plans);
  void backward_ends() { followed_ = follows_ = false; }
  bool followed() const { return followed_; }  // some rank has no batch
  bool follows() const { return follows_; }    // this one
  // Whether all ranks had the same plans then: one may have gone another way.
  bool plans_alike() const { return plans_alike_; }

  // This rank gathers the unit outside of a plan.
  void gathers(int unit, const Account& account);
  // It has ended its backward. Returns the largest of the ranks' accounts, number by number.
  Account ends_backward(const Account& account);

  // What the ranks that have a batch do.
  struct Leaders {
    std::optional<int> gathered_unit;  // none: they have ended their backward
    Account account;                   // the largest of all ranks
  };
  // This rank has none, and waits for what the others do next.
  Leaders follow(const Account& account);

 private:
  std::vector<torch::Tensor> exchange(int64_t activity, const Account& account);
  std::string describe(int64_t activity) const;
  void check_same_activity(const std::vector<torch::Tensor>& messages) const;

  collectives::Group& group_;
  const Units& units_;
  Recorder& recorder_;
  bool followed_ = false;
  bool follows_ = false;
  bool plans_alike_ = true;
};

}  // namespace fsdp::engine
