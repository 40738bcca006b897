// A sharded model at work: performs what the schedule decides, on buffers and collectives.
//
// Events come from interpose/, actions from schedule/; the bytes lie in collectives/ (shards) and buffers/ (full units
// and gradients). One lock covers every event; kernels run outside of it. Its jobs are one file each: construction,
// touches, actions, gradients, gradient_sum, backward, following, step_in_backward, gathers_ahead, shard_writes,
// pieces, full_parameters, full_state, report.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "buffers/arena.h"
#include "collectives/group.h"
#include "engine/agreement.h"
#include "engine/early_step.h"
#include "engine/model_spec.h"
#include "engine/piece_gradients.h"
#include "engine/recorder.h"
#include "engine/unit.h"
#include "fsdp/sharded_model.h"
#include "interpose/backward_watch.h"
#include "interpose/listener.h"
#include "interpose/piece_storage.h"
#include "schedule/schedule.h"

namespace fsdp::engine {

class Model final : public interpose::Listener {
 public:
  explicit Model(ModelSpec spec);  // a collective
  ~Model() override;

  collectives::Group& group() { return *group_; }
  int shards() const { return shards_; }
  const std::vector<std::unique_ptr<Unit>>& units() const { return units_; }
  const std::vector<ShardedParameter>& parameters() const { return parameters_; }
  bool trainable(size_t parameter) const;  // whether it wants a gradient now
  const NamedTensors& buffers() const { return buffers_; }
  // Rank `source`'s values to all. A collective.
  void broadcast_buffers(int source);

  // Around every change of the shards: nothing is full and no rank reads them in between. Collectives.
  void begin_write();
  void publish();
  // The same before everything is written: a step that broke off inside of a backward is over then.
  void begin_load();
  // What the user's own operators wrote to pieces, if they did.
  void publish_written();
  // Throws Error inside of full_parameters, whose values are not the shards' yet, and where a step has begun and not
  // ended; `what` says what was about to happen.
  void check_settled(std::string_view what) const;
  // The latter alone.
  void check_step_ended(std::string_view what) const;

  // Ends the sum of the gradients and scales it by the divisor, once. Throws Error when no rank has a gradient.
  void close_gradients();
  // Closes the gradients and gives the update one unit after the other, each of which is published once it has
  // returned; ends the step that this update has begun inside of the backward. A collective.
  void step(const std::shared_ptr<const UnitUpdate>& update);
  // Between the two, the next backward is the last before a step: the update gets units while it runs, where that is
  // possible. `step` is to be called after it.
  void open_step_in_backward(std::weak_ptr<const UnitUpdate> update);
  void close_step_in_backward() noexcept;
  // Whether it is to come, or runs.
  bool steps_in_backward() const;
  // The update will not be given anything any more: its step, if it has begun one, breaks off.
  void forget_update(const std::shared_ptr<const UnitUpdate>& update) noexcept;
  // Multiplies the closed gradients.
  void scale_gradients(float factor) { piece_gradients_.scale(factor); }
  // Scaling is put off until the values are read: what is left to multiply them by, one factor after the other, is the
  // caller's to do, or done now.
  std::vector<float> take_factors() { return piece_gradients_.take_factors(); }
  void scale_now() { piece_gradients_.scale_now(); }
  void zero_grad();
  void set_gradient_divisor(double divisor);
  // In between, backwards add to this rank's own gradients. May be nested.
  void begin_no_sync();
  void end_no_sync() noexcept;
  // Whether any rank has a batch for the next backward. A collective.
  bool any_rank_has_batch(bool here);
  // In place of forward and backward on a rank that has none where another has one.
  void backward_without_batch();
  // The parameters are still the ones that were sharded; `what` says what was about to happen.
  void check_parameters(std::string_view what) const;

  void add_optimizer_bytes(int64_t bytes) { optimizer_bytes_ += bytes; }
  MemoryReport memory() const;
  CommunicationReport communication() const;
  std::string schedule_text() const;
  // One at a time.
  void begin_trace();
  std::vector<Span> end_trace();

  // Whole copies of all parameters in fp32, then of all buffers. A collective.
  NamedTensors full_state(const FullStateOptions& options);
  // A scope in which units are full in memory of their own and may be written.
  void open_full(FullParametersOptions options);
  void close_full();

  // What the parameters, their pieces and autograd tell.
  void operator_begins(std::span<const int> units, std::optional<int> written, const char* operation) override;
  void operator_ends(std::span<const int> units) noexcept override;
  void parameter_viewed(int unit) override;
  void pieces_used(const interpose::PieceUse& use, const char* operation) override;
  torch::Tensor gradient_destination(int unit, int parameter) override;
  void gradient_arrives(int unit, int parameter, torch::Tensor gradient) override;
  void backward_ends(int task) override;

 private:
  // construction.cpp
  void add_unit(const UnitSpec& unit, const ModelSpec& spec);
  void plan(const ModelSpec& spec);

  // touches.cpp
  schedule::Mode note_mode();  // of what this thread runs now
  bool note_backward();
  void check_changed(int unit, schedule::Mode mode);

  // actions.cpp
  void perform(const schedule::Actions& actions);
  void perform(const schedule::Action& action);
  void count_gather(const Unit& unit, bool foreseen);
  void gather(const schedule::Action& action, bool in_any_order = false);
  std::vector<int64_t> begun() const;
  void* wait_gather(int id);
  void open_gradient(const schedule::Action& action);
  void reduce(const schedule::Action& action);
  void wait_reduction(const schedule::Action& action);
  void finish_reduction(Unit& unit, int buffer);
  void set_aside(const schedule::Action& action);

  // gradients.cpp
  bool stalls(Unit& unit);
  void write_gradient(Unit& unit, int parameter, torch::Tensor gradient);

  // gradient_sum.cpp
  void close();
  void drop_all_gradients();

  // backward.cpp
  void end_backward(const std::vector<int64_t>& account);
  std::vector<int64_t> agree_on_account();
  void reduce_rest(const std::vector<int64_t>& account);
  void reduce_open();
  void wait_sums();
  void abandon_backward();

  // following.cpp
  std::vector<int64_t> follow();
  void gather_for_others(int id);

  // step_in_backward.cpp
  void step_early(int64_t touched);  // in a backward, before what began at `touched`
  bool leave(int id);
  void step_unit(int id, const UnitUpdate& update, std::span<const float> factors);
  void write(int id, const UnitUpdate& update, std::span<const float> factors, int64_t computed_until);
  void break_off_step(std::string_view how);
  void end_broken_step();
  void drop_gradients(Unit& unit);
  void check_no_step_begun(std::string_view what) const;
  void check_not_stepped(std::span<const int> units, const char* event) const;
  void check_reduced_once(std::span<const int64_t> account) const;

  // gathers_ahead.cpp
  void gather_next(int id);
  void end_early_gathers();

  // shard_writes.cpp
  void release_all();
  void publish(Unit& unit);
  void publish_all();

  // full_parameters.cpp
  torch::Tensor gather_alone(Unit& unit);
  void take_from_rank0(Unit& unit);
  void use_full(std::span<const int> units, std::optional<int> written, const char* operation) const;
  void check_no_full_scope(std::string_view what) const;

  // One rank's gradients are their own sum: they stay where autograd made them.
  bool alone() const { return group_->size() == 1; }
  torch::TensorOptions on_device(torch::ScalarType dtype) const { return torch::dtype(dtype).device(device_); }
  // Runs what talks to other ranks; its first failure is repeated by every later call.
  template <typename Body>
  void guarded(Body body);

  mutable std::mutex mutex_;
  std::unique_ptr<collectives::Group> group_;
  torch::Device device_;
  Strategy strategy_;
  int shards_;
  torch::ScalarType reduce_dtype_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<ShardedParameter> parameters_;
  NamedTensors buffers_;
  std::shared_ptr<interpose::Link> link_ = std::make_shared<interpose::Link>();
  interpose::BackwardWatch backward_{link_};
  std::unique_ptr<schedule::Schedule> schedule_;
  std::unique_ptr<buffers::Arena> arena_;
  CommunicationReport communication_;
  Recorder recorder_;
  Agreement agreement_{*group_, units_, recorder_};
  std::string failure_;  // the first error of a collective; every later call repeats it
  PieceGradients piece_gradients_;
  EarlyStep step_;          // one that began inside of a backward, or will
  int no_sync_ = 0;         // scopes that are open
  bool unreduced_ = false;  // backwards of no_sync scopes came, on every rank, since the last reductions
  bool written_ = false;    // an operator of the user's writes pieces: published when the model is used next
  std::optional<FullParametersOptions> full_;  // between open_full and close_full
  int64_t optimizer_bytes_ = 0;
};

template <typename Body>
void Model::guarded(Body body) {
  if (!failure_.empty()) throw Error(failure_);
  try {
    body();
  } catch (const std::exception& error) {
    failure_ = error.what();
    throw;
  }
}

}  // namespace fsdp::engine
