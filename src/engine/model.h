// A sharded model: makes and owns its parts, and has the calls that the rest of the library makes. Events of LibTorch
// come in by events.h; reports read the parts by model_view.h.
//
// It has so many functions because it is the only door to the parts for rooms above. Most are one line. Calls under
// "Locked" take the model's lock. Where such a call can be misuse, it asks the step machine, and throws Error. The
// others are for the thread that trains: they read what does not change, or what only that thread changes.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/events.h"
#include "engine/other_parts.h"
#include "engine/parts.h"

namespace fsdp::engine {

class Model {
 public:
  explicit Model(ModelSpec spec);  // a collective
  // The same, to be found by `of`.
  static std::shared_ptr<Model> make(ModelSpec spec);
  // The model that holds the parameter; null: it is not sharded.
  static std::shared_ptr<Model> of(const torch::Tensor& parameter);
  // The number of the unit that holds this parameter of a model.
  static int unit_holding(const torch::Tensor& parameter);

  collectives::Group& group() const { return *parts_.group; }
  int shards() const { return parts_.shards; }
  const WholeModel& whole() const { return whole_; }
  const Units& units() const { return parts_.units; }
  const std::vector<ShardedParameter>& parameters() const { return parts_.parameters; }
  bool trainable(size_t parameter) const;  // whether it wants a gradient now
  // [numel] of zeros for an optimizer's state of the parameter.
  torch::Tensor new_state(size_t parameter, int64_t numel, torch::ScalarType dtype);
  const NamedTensors& buffers() const { return parts_.buffers.named(); }
  // The blocks that Options::activation_memory decides about.
  const ActivationBudget::Blocks& recomputed_blocks() const { return parts_.activation_budget.blocks(); }
  // The memory that outlives the rank's process, for restarts from memory; null: there is none.
  memory::HeldRank* held_memory() const { return parts_.state_backing->held(); }
  // A further group of the same ranks, for tensors on the CPU. A collective.
  std::unique_ptr<collectives::Group> new_host_group() const { return parts_.new_host_group(); }
  // An object of the saves beside training, which ends before anything else of the model does; null before the first.
  std::shared_ptr<void>& saves() { return saves_; }
  // The memory that their copies take. Any thread.
  std::atomic<int64_t>& save_copy_bytes() { return parts_.save_copy_bytes; }
  void begin_activation_peak() { parts_.activations.count()->begin_peak(); }
  void scale_gradients(GradientFactor factor) { parts_.gradients.scale(std::move(factor)); }
  GradientFactors gradient_factors_for_use() { return parts_.gradients.factors_for_use(); }
  void scale_now() { parts_.scale_now(); }
  // The axes over which layers of the model are divided, in the same order on every rank. A sum over all parts goes
  // along one axis after the other.
  void set_axes(std::vector<std::shared_ptr<DividingAxis>> axes) { axes_ = std::move(axes); }
  const std::vector<std::shared_ptr<DividingAxis>>& axes() const { return axes_; }
  // Null: the axis does not divide the parameter.
  const AxisDivision* division_of(size_t parameter, const DividingAxis& axis) const;
  // The other stages of a pipeline; null: there are none.
  void set_other_parts(std::shared_ptr<OtherParts> parts) { other_parts_ = std::move(parts); }
  // In a scope of step_in_backward whose backward has not begun.
  bool steps_in_backward() const { return events_.steps_in_backward(); }
  bool in_no_sync() const;
  const std::shared_ptr<OtherParts>& other_parts() const { return other_parts_; }
  // Every part's tensor. The wait counts as the model's.
  std::vector<torch::Tensor> gather_over(OtherParts& parts, const torch::Tensor& tensor);
  // True for a frozen stage: its gradients never come, and those of other stages do.
  bool is_frozen_part() const;
  void add_optimizer_bytes(int64_t bytes) { parts_.optimizer_bytes += bytes; }

  // ---- Locked
  // Throws Error where the call would be misuse now, or where parameters were replaced; `what` names it.
  void check(schedule::Call call, std::string_view what);
  void check_parameters(std::string_view what) const;

  // Publishes what operators of the user's own wrote to pieces, if they did.
  void publish_pieces();
  // A load, on every rank alike: begin_load, the writes, publish, then one of the two ends. Until `publish` nothing is
  // full, and no rank reads the shards; until the end every use of the model is an error. Flags are one for each
  // parameter.
  //
  // A collective. `call`: WriteState, or LoadCheckpoint, which ends a step that broke off. `whole`: the load has all
  // values of the parameter; the others get their first ones where they have none.
  void begin_load(schedule::Call call, std::string_view what, const std::vector<bool>& whole);
  void publish();
  void end_load(const std::vector<bool>& whole);
  // Some rank could not: every use remains an error until other loads have filled all that this one was to fill.
  void break_off_load(const std::vector<bool>& was_to_fill);
  // By parameter.
  std::vector<bool> missing_values() const;
  // First values for all that have none. A collective.
  void initialise();
  // Rank `source`'s values to all. A collective.
  void broadcast_buffers(int source);

  // Ends the sum of the gradients, which are to be multiplied by factors then. Throws Error when no rank has a
  // gradient.
  void close_gradients(std::string_view what);
  void zero_grad();
  void set_gradient_divisor(double divisor);
  // In between, events belong to the micro-batch of this name. Returns the name before, which the end takes.
  std::optional<int64_t> begin_micro_batch(int64_t number);
  void end_micro_batch(std::optional<int64_t> outer) noexcept;
  // StepDriver::hold. Does nothing in a scope of full parameters, where all are full.
  void hold(std::span<const int> units);
  void let_go(std::span<const int> units);
  // In between, backwards add to this rank's own gradients. May be nested.
  void begin_no_sync();
  void end_no_sync() noexcept;

  // From now on shards and optimizers' state may be read beside the program, until the reading ends: changes wait for
  // it. Whatever operators wrote to pieces is published (publish_pieces).
  std::shared_ptr<ShardReaders::Reading> begin_reading();
  // The caller may write optimizers' state afterwards.
  void give_state_out();

  // One unit whole, in fp32: only to be read. Between the first and the last, nothing else uses the model. A
  // collective.
  void begin_read(std::string_view what);
  torch::Tensor gather_whole(size_t unit);

  // schedule/optimizer_step.h has the words. `step` is a collective.
  void step(const std::shared_ptr<const UnitUpdate>& update);
  void open_step_in_backward(std::weak_ptr<const UnitUpdate> update);
  void close_step_in_backward() noexcept;
  void forget_update(const std::shared_ptr<const UnitUpdate>& update) noexcept;

  // schedule/join.h has the words. Collectives.
  bool any_rank_has_batch(bool here);
  void backward_without_batch();

  // ShardedModel::trace. One at a time: throws Error otherwise.
  // `memory`: as report::Timeline's; it is called with the lock.
  void begin_trace(std::function<report::MemorySample()> memory = nullptr);
  report::Recorded end_trace();

 private:
  friend class FullScope;
  friend class ModelView;
  ShardedUnit& unit_of(size_t parameter) const;

  const WholeModel whole_;
  Parts parts_;
  Events events_{parts_};
  std::shared_ptr<void> saves_;
  std::vector<std::shared_ptr<DividingAxis>> axes_;
  std::shared_ptr<OtherParts> other_parts_;
};

}  // namespace fsdp::engine
