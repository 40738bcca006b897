// A sharded model: makes and owns its parts, and has the calls that the rest of the library makes.
//
// Each call takes the lock, asks the step machine whether it may come now, and gives the work to one part; that makes
// this a long list of short functions. Events of LibTorch come in by events.h.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/events.h"
#include "engine/parts.h"

namespace fsdp::checkpoint {
class BackgroundSaves;
}

namespace fsdp::engine {

class Model {
 public:
  explicit Model(ModelSpec spec);  // a collective

  collectives::Group& group() const { return *parts_.group; }
  int shards() const { return parts_.shards; }
  const Units& units() const { return parts_.units; }
  const std::vector<ShardedParameter>& parameters() const { return parts_.parameters; }
  bool trainable(size_t parameter) const;  // whether it wants a gradient now
  // [numel] of zeros for an optimizer's state of the parameter.
  torch::Tensor new_state(size_t parameter, int64_t numel, torch::ScalarType dtype);
  const NamedTensors& buffers() const { return parts_.buffers.named(); }
  // For what this room does with several parts. The caller takes the lock.
  Parts& parts() { return parts_; }
  const Parts& parts() const { return parts_; }

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
  void scale_gradients(GradientFactor factor) { parts_.gradients.scale(std::move(factor)); }
  GradientFactors gradient_factors_for_use() { return parts_.gradients.factors_for_use(); }
  void scale_now() { parts_.scale_now(); }
  void zero_grad();
  void set_gradient_divisor(double divisor);
  // In between, backwards add to this rank's own gradients. May be nested.
  void begin_no_sync();
  void end_no_sync() noexcept;

  // From now on shards and optimizers' state may be read beside the program, until the reading ends: changes wait for
  // it. Whatever operators wrote to pieces is published (publish_pieces).
  std::shared_ptr<ShardReaders::Reading> begin_reading();
  // The caller may write optimizers' state afterwards.
  void give_state_out();
  // A further group of the same ranks, for tensors on the CPU. A collective.
  std::unique_ptr<collectives::Group> new_host_group() const { return parts_.new_host_group(); }
  // Those of this model; null before the first. They end before anything else of the model does.
  std::shared_ptr<checkpoint::BackgroundSaves>& background_saves() { return background_saves_; }

  // One unit whole, in fp32: only to be read. Between the first and the last, nothing else uses the model. A
  // collective.
  void begin_read(std::string_view what);
  torch::Tensor gather_whole(size_t unit);

  // schedule/optimizer_step.h has the words. `step` is a collective.
  void step(const std::shared_ptr<const UnitUpdate>& update);
  void open_step_in_backward(std::weak_ptr<const UnitUpdate> update);
  void close_step_in_backward() noexcept;
  void forget_update(const std::shared_ptr<const UnitUpdate>& update) noexcept;
  void add_optimizer_bytes(int64_t bytes) { parts_.optimizer_bytes += bytes; }

  // schedule/join.h has the words. Collectives.
  bool any_rank_has_batch(bool here);
  void backward_without_batch();

 private:
  ShardedUnit& unit_of(size_t parameter) const;

  Parts parts_;
  Events events_{parts_};
  std::shared_ptr<checkpoint::BackgroundSaves> background_saves_;
};

}  // namespace fsdp::engine
