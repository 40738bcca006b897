// Performs the verbs of a step on units, buffers and collectives. It does what it is told and knows no reasons. It has
// so many functions because each verb is one.
//
// The model's lock covers all calls.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "buffers/arena.h"
#include "engine/activation_budget.h"
#include "engine/model_gradients.h"
#include "engine/shard_readers.h"
#include "engine/sharded_unit.h"
#include "interpose/listener.h"
#include "memory/backing.h"
#include "memory/side_stream.h"
#include "report/recorder.h"
#include "schedule/performer.h"

namespace fsdp::engine {

using report::Activity;
using report::kNoUnit;
using report::Recorder;

// An optimizer's change of a unit's shard, which may be written, by its gradients times the factors. It writes what it
// changes in the dtype of full parameters as well, where that is another one.
using UnitUpdate = std::function<void(const ShardedUnit& unit, const GradientFactors& factors)>;

class TensorPerformer final : public schedule::Performer {
 public:
  // All outlive it. `backing` is of the shards.
  TensorPerformer(Units& units, collectives::Group& group, Recorder& recorder, ModelGradients& gradients,
                  ShardReaders& readers, ActivationBudget& activation_budget, buffers::Arena arena,
                  std::shared_ptr<memory::Backing> backing);

  // The rule of the updates that follow, and that of early updates.
  void set_update(std::shared_ptr<const UnitUpdate> update) { update_ = std::move(update); }
  void set_early_update(std::weak_ptr<const UnitUpdate> update) { early_update_ = std::move(update); }
  // An early update comes before the rest of what began then: the work before was computed until then.
  void event_began_at(int64_t time) { event_began_at_ = time; }
  // A shard or an optimizer's state is about to be written.
  void changes() { backing_->changes(); }
  void write_gradient(int unit, int parameter, torch::Tensor gradient);
  const buffers::Arena& arena() const { return arena_; }

  void gather(int unit, int buffer, Order order) override;
  bool gather_stalls(int unit) override;
  void await_gather(int unit) override;
  void gather_for_peers(int unit, int spare) override;
  void release(int unit, int buffer) override;

  void open_gradients(int unit, int buffer) override;
  void reduce(int unit, int buffer) override;
  Begun has_begun(int unit) override;
  void await_reduction(int unit, int buffer, bool used_at_once) override;
  void move_gradients(int from, int to) override;
  std::vector<int> end_reductions(bool everywhere, bool as_before, int buffers) override;
  void await_sums() override;
  bool sum_is_complete(int unit) override { return units_[unit]->collectives->sum_is_complete(); }

  void await_readers() override;
  bool begin_write(int unit, Readers readers) override;
  void publish(int unit) override;
  void begin_all_writes() override;
  void publish_all() override;
  void change_full(int unit, Order order, const std::function<void()>& change) override;
  void mark_changed() override;

  void begin_updates() override { factors_ = gradients_.factors_for_use(); }
  void update(int unit, bool early) override;
  void read_ahead(int unit) override { units_[unit]->read_ahead(); }

 private:
  // Where a gather of the unit goes: undefined where the backend hands out memory of its own.
  torch::Tensor buffer_for(const ShardedUnit& unit, int buffer);
  // True if the unit's sum can take the place of the gradients in the buffer.
  bool sums_in_place(const ShardedUnit& unit, int buffer) const;
  void finish_reduction(int unit, int buffer, bool used_at_once);
  // One rank's gradients are their own sum: they stay where autograd made them.
  bool alone() const { return group_.size() == 1; }

  Units& units_;
  collectives::Group& group_;
  Recorder& recorder_;
  ModelGradients& gradients_;
  ShardReaders& readers_;
  ActivationBudget& activation_budget_;
  buffers::Arena arena_;
  std::shared_ptr<memory::Backing> backing_;
  memory::SideStream to_host_;  // for one rank alone whose shards lie on the host
  std::shared_ptr<const UnitUpdate> update_;
  std::weak_ptr<const UnitUpdate> early_update_;
  GradientFactors factors_;
  int64_t event_began_at_ = 0;
};

}  // namespace fsdp::engine
