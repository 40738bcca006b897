// Rounds among the ranks while a step runs. In a round the ranks exchange the units that they gather outside of plans,
// and the reductions that are left at the end of a backward. They also exchange what operators wrote to parameters, and
// whether they have a batch.
//
// A round is an all-gather of a few numbers per unit. Each rank sends its activity and the name of its operator. Ranks
// may be at different activities: every rank then takes part in all gathers that any rank with the same shards needs.
// This includes ranks that have ended their backward or have no batch. A rank that left the plan first makes up for the
// gathers that its peers have begun. If the backend cannot do so, all ranks with a batch must be at the same activity.
// If the ranks cannot go on, every rank throws an Error that names two ranks and their activities.
//
// Owned by the model, whose lock covers all calls. Calls that are collectives say so; the caller runs them in
// Executor::guarded, as nothing can be exchanged after one that failed.
#pragma once

#include <cstdint>
#include <memory>
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
using schedule::UnitCounts;

class Agreement {
 public:
  // All outlive it.
  Agreement(collectives::Group& group, const Units& units, const schedule::Schedule& schedule, Recorder& recorder)
      : group_(group), units_(units), schedule_(schedule), recorder_(recorder) {}

  // True if any rank has a batch for the next backward; `plans` are this rank's. Ranks without one follow the others
  // until that backward ends. A collective.
  bool any_has_batch(bool here, const std::vector<int>& plans);
  void backward_ends() { followed_ = follows_ = false; }
  bool followed() const { return followed_; }  // some rank has no batch
  bool follows() const { return follows_; }    // this one
  // True if all ranks had the same plans then: one may have gone another way.
  bool plans_alike() const { return plans_alike_; }

  // The values of the units that an operator wrote.
  struct Written {
    int64_t hash = 0;
    bool changed = false;  // a value is not what it was
  };

  // The result of a round: the next gathers of this rank.
  struct Round {
    std::vector<int> missed;    // units whose gathers this rank has not joined yet, in this order
    std::vector<int> gathered;  // then the units that ranks with the same shards need, by number
    bool ended = false;         // all ranks with a batch have ended their backward
    bool alike = true;          // these ranks did the same so far, and are at the same activity
    bool wrote_alike = true;    // the operators of all ranks wrote the same values
    bool changed = false;       // one of them changed a value
    UnitCounts counts;          // the largest of all ranks
  };
  // This rank gathers the unit outside of a plan, for the operator of this name, if not empty. A collective, as are the
  // next four.
  Round gathers(int unit, std::string_view operation, const UnitCounts& counts);
  // This rank waits for the unit, and a peer does not gather it.
  Round waits(int unit, const UnitCounts& counts);
  // The operator of this name has written the unit, on this rank and on all others.
  Round writes(int unit, std::string_view operation, const Written& written, const UnitCounts& counts);
  // This rank has ended its backward.
  Round ends_backward(const UnitCounts& counts);
  // This rank has no batch.
  Round follow(const UnitCounts& counts);
  // True if all ranks reported in the last round that their reductions were as in the backward before.
  bool reductions_as_before() const { return as_before_; }
  // This rank has begun a gather that the plan foresaw.
  void has_begun(int unit) { begun_.push_back(unit); }
  // True if gathers outside of plans need rounds, also at the end of a backward that reduces nothing.
  bool in_rounds() const;

 private:
  enum class Kind : int64_t { Gathers, Waits, Writes, EndsBackward, Follows };
  struct Doing {
    Kind kind;
    int unit = -1;
    std::string_view operation = {};
    Written written = {};
  };
  using Messages = std::vector<torch::Tensor>;

  Round exchange(const Doing& activity, const UnitCounts& counts);
  Messages all_gather(const torch::Tensor& message, const std::string& purpose);
  bool leads(const torch::Tensor& message) const;
  std::string describe(const torch::Tensor& message) const;
  void check_can_go_on(const Messages& messages) const;
  bool shares_shards_with(int rank) const;
  std::vector<int> find_missed(const Messages& messages);

  collectives::Group& group_;
  const Units& units_;
  const schedule::Schedule& schedule_;
  Recorder& recorder_;
  bool as_before_ = false;
  int64_t leaders_ = 0;     // ranks with a batch, in the last round
  std::vector<int> begun_;  // gathers that the plan foresaw, since the last round
  bool followed_ = false;
  bool follows_ = false;
  bool plans_alike_ = true;
};

}  // namespace fsdp::engine
