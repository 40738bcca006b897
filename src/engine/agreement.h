// Messages among the ranks while a step runs: which unit each gathers where no plan says it, how much is left to reduce
// at the end of a backward, and which ranks have a batch.
//
// A message is an all-gather of a few numbers per unit. Each says which activity its rank is at, and for which
// operator; ranks that have a batch must be at the same activity: otherwise every rank throws an Error that names two
// of them and what they do. A rank without a batch follows the others, and learns from their messages which activity
// comes next.
//
// Owned by the model, whose lock covers all calls. Calls that are collectives say so; the caller runs them in
// Executor::guarded, as nothing can be exchanged after one that failed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/group.h"
#include "engine/sharded_unit.h"
#include "report/recorder.h"
#include "schedule/schedule.h"

namespace fsdp::engine {

using report::Activity;
using report::kNoUnit;
using report::Recorder;

// The state of a rank's backward. Four numbers per unit: those of schedule::Reductions::account, each for all units,
// and whether the unit's shard has changed already.
using Account = std::vector<int64_t>;

// At the end of the backward.
Account account_at_end(const schedule::Schedule& schedule);
// In its midst, where only the reductions that were begun count.
Account account_so_far(const schedule::Schedule& schedule);
// A unit that changed before the end of the backward on some rank, and of which some rank has more gradients than were
// reduced by then.
std::optional<int> changed_too_early(const Account& account);

class Agreement {
 public:
  // All outlive it.
  Agreement(collectives::Group& group, const Units& units, Recorder& recorder)
      : group_(group), units_(units), recorder_(recorder) {}

  // Whether any rank has a batch for the next backward; `plans` are this rank's. Ranks without one follow the others
  // until that backward ends. A collective.
  bool any_has_batch(bool here, const std::vector<int>& plans);
  void backward_ends() { followed_ = follows_ = false; }
  bool followed() const { return followed_; }  // some rank has no batch
  bool follows() const { return follows_; }    // this one
  // Whether all ranks had the same plans then: one may have gone another way.
  bool plans_alike() const { return plans_alike_; }

  // This rank gathers the unit outside of a plan, for an operator of this name, or for none. A collective.
  void gathers(int unit, std::string_view operation, const Account& account);
  // This rank has ended its backward. Returns the largest of the ranks' accounts, number by number. A collective.
  Account ends_backward(const Account& account);

  // The next activity of the ranks that have a batch.
  struct Leaders {
    std::optional<int> gathered_unit;  // none: they have ended their backward
    Account account;                   // the largest of all ranks
  };
  // This rank has no batch, and waits for the others' next activity. A collective.
  Leaders follow(const Account& account);

 private:
  std::vector<torch::Tensor> exchange(int64_t activity, std::string_view operation, const Account& account);
  std::string describe(const torch::Tensor& message) const;
  void check_same_activity(const std::vector<torch::Tensor>& messages) const;

  collectives::Group& group_;
  const Units& units_;
  Recorder& recorder_;
  bool followed_ = false;
  bool follows_ = false;
  bool plans_alike_ = true;
};

}  // namespace fsdp::engine
