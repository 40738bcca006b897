// A model whose parameters and gradients are divided among the ranks of a world.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/activation_memory.h"
#include "fsdp/movable.h"
#include "fsdp/options.h"
#include "fsdp/trace.h"
#include "fsdp/world.h"

namespace torch::jit {
struct Module;
}

namespace fsdp {

namespace engine {
class Model;
class FullScope;
}  // namespace engine

// This rank's part of one parameter.
struct ShardedParameter {
  std::string name;            // as in the module's named_parameters
  std::vector<int64_t> shape;  // of the whole parameter
  torch::Tensor piece;         // 1-D, maybe empty: a range of the parameter's elements; piece.grad() after backward
  int64_t offset = 0;          // of the piece's first element within the parameter's elements, in memory order
};

// The part of one unit in MemoryReport's activations, in bytes.
struct UnitActivations {
  std::string unit;        // by name
  int64_t bytes = 0;       // now
  int64_t peak_bytes = 0;  // when those of all units together were most
};

// Memory that this rank holds for the model, in bytes.
struct MemoryReport {
  int64_t parameter_bytes = 0;       // shards, in fp32 and in the dtype that is gathered
  int64_t gradient_bytes = 0;        // gradients of the shards
  int64_t optimizer_bytes = 0;       // state of the optimizers built over the model
  int64_t full_parameter_bytes = 0;  // buffers for gathered units
  int64_t full_gradient_bytes = 0;   // buffers for units whose gradients are being completed or reduced
  // Of these; the activations come on top.
  int64_t total_bytes() const {
    return parameter_bytes + gradient_bytes + optimizer_bytes + full_parameter_bytes + full_gradient_bytes;
  }
  // Tensors that autograd keeps for a backward: those that were saved on a thread from its first use of a parameter of
  // this model, with gradients on, to the end of its next backward, or its first use of another model. A storage counts
  // once, whole, however many tensors share it, and as long as a graph holds it. Parameters are left out; inputs and
  // buffers that an operator saved are not, nor are, in a process with Python, tensors that hooks pushed there keep.
  int64_t activation_bytes = 0;                   // now
  int64_t peak_activation_bytes = 0;              // the most since the model was sharded, or `reset_peak_memory`
  std::vector<UnitActivations> activations = {};  // by the unit that was in use when they were saved, in units' order
  // Of total_bytes, what lies in files of Options::offload_directory: it takes memory only while it is used.
  int64_t offloaded_bytes = 0;
  // By Options::offload_activations, which are in none of the numbers above: in files, or in the memory of a GPU's
  // host.
  int64_t offloaded_activation_bytes = 0;       // now
  int64_t peak_offloaded_activation_bytes = 0;  // the most since the model was sharded, or `reset_peak_memory`
  // Memory for the copies of save_checkpoint_async: kept from its first call to the model's end.
  int64_t save_copy_bytes = 0;  // in none of the numbers above
};

// How often the model communicated since it was sharded.
struct CommunicationReport {
  int64_t gathers = 0;           // units made full from the shards of several ranks
  int64_t foreseen_gathers = 0;  // those that the plan knew
  int64_t reductions = 0;        // units whose gradients were reduced
  int64_t late_gradients = 0;    // that came after their unit was reduced: their sum may differ in bits
  int64_t all_reductions = 0;    // of the reductions, those whose sums went to replicas as well
  double wait_seconds = 0;       // that this rank waited for others, and its steps for a save to copy

  // From an earlier report of the same model to this one: what a step comes to, for example.
  //
  //   const CommunicationReport before = sharded.communication();
  //   ...                                                          // a step
  //   const CommunicationReport of_step = sharded.communication().since(before);
  CommunicationReport since(const CommunicationReport& before) const;
};

struct FullParametersOptions {
  bool write_back = true;               // keep what was written in the scope; a write without this is an error
  std::vector<std::string> units = {};  // name patterns (* and ?) of the units that are made whole; none: all
  // Whole on rank 0 only, whose writes count; otherwise all ranks must write the same values.
  bool rank0_only = false;
};

// Whole tensors by name, for users who save in their own way.
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

struct FullStateOptions {
  bool rank0_only = false;  // the other ranks take part and get nothing: a unit's memory instead of the model's
  bool buffers = true;      // after the parameters; without them, `buffers()` has this rank's
};

// A scope in which parameters of the module are whole, in the dtype that operators see, and can be read and written as
// usual. With fewer bits than a shard's fp32, what is not written keeps the shard's. A collective: all ranks open and
// close it together. Ends with `close`, or in the destructor, which does not throw.
class FullParameters {
 public:
  explicit FullParameters(std::unique_ptr<engine::FullScope> scope);
  FullParameters(FullParameters&&) noexcept;
  FullParameters& operator=(FullParameters&&) = delete;
  ~FullParameters();
  void close();

 private:
  detail::Movable<"FullParameters", std::unique_ptr<engine::FullScope>> scope_;  // null once it has ended
};

// A scope whose backwards add to gradients that stay with this rank, whole: no reduction, and a unit's memory for each
// unit. The next backward outside of it reduces the sum of all; without one, clipping, a step, or reading grad() of a
// piece does. Results are those of another order of additions (docs/determinism.md).
class NoSync {
 public:
  explicit NoSync(std::shared_ptr<engine::Model> model);
  NoSync(NoSync&&) noexcept = default;
  NoSync& operator=(NoSync&&) = delete;
  ~NoSync();

 private:
  detail::Movable<"NoSync", std::shared_ptr<engine::Model>> model_;
};

// A movable handle to the sharded model; the module itself is called as before. Destroying it runs no collective; a
// parameter used after that is an error, and so is a handle that was moved from, as with every handle of this library.
// Forward passes, backwards and calls of one model come from one thread at a time.
class ShardedModel {
 public:
  explicit ShardedModel(std::shared_ptr<engine::Model> model);
  ShardedModel(ShardedModel&&) noexcept;
  ShardedModel& operator=(ShardedModel&&) noexcept;
  ~ShardedModel();

  // In the order of the units, then of the parameters in them; the same on every rank.
  const std::vector<ShardedParameter>& parameters() const;
  // By name and size, as `preview_units` gives them before; the same on every rank.
  std::vector<UnitSummary> units() const;
  // The pieces alone. Any torch::optim optimizer that works element by element can step on them: what reads a piece's
  // gradient ends the sum (docs/determinism.md), and what was written is published when the model is used next.
  std::vector<torch::Tensor> shards() const;

  // Scales the gradients so that their norm over the whole model is at most `max_norm`, and returns the norm before.
  // The result does not depend on the number of ranks (docs/determinism.md). With a `max_norm` of 0 all gradients
  // become 0; with infinity they stay as they are. A collective. Throws `Error` when there is no gradient, for a
  // max_norm below 0 or NaN, or for a norm_type that is not positive (infinity is allowed).
  double clip_grad_norm_(double max_norm, double norm_type = 2.0);
  // The same, but the host does not wait for the gradients' device. Returns the norm as [] of float64 there. The factor
  // stays there until an optimizer uses it. norm.item<double>() waits: call it only in steps that print the norm. If
  // the gradients are on the CPU, this is clip_grad_norm_.
  torch::Tensor clip_grad_norm_async_(double max_norm, double norm_type = 2.0);
  // By what the sum over all micro-batches and ranks is divided; the number of ranks unless set.
  void set_gradient_divisor(double divisor);
  // Every rank runs equally many backwards. If no backward outside of the scope follows, the first clip, step or call
  // of a piece's grad() or mutable_grad() reduces. That call is a collective then, and an error inside the scope.
  NoSync no_sync();
  // Uneven inputs, for ranks with different numbers of batches: they go on until none has another, and one without
  // takes part in the step all the same, as it owns a part of every parameter.
  //
  //   while (sharded.any_rank_has_batch(batch.has_value())) {
  //     if (batch) model->loss(*batch).backward(); else sharded.backward_without_batch();
  //     optimizer.step();
  //     ...
  //
  // Ask before each backward. The sum is over the ranks that have a batch, and the divisor stays what it is: the number
  // of ranks unless set. In a step that some follow, units are gathered when they are needed, none ahead. Nothing else
  // that talks between ranks may lie in that forward and backward: no SyncBatchNorm, no World call, no evaluation.
  // A collective. Whether any rank has a batch; `here`: whether this one has.
  bool any_rank_has_batch(bool here);
  // In place of one forward and one backward. Throws `Error` unless this rank has no batch and another has.
  void backward_without_batch();
  // Copies of every parameter, whole and in fp32, by name; then, unless the options say otherwise, of every buffer, by
  // name, this rank's. For this rank's parts see `parameters()`. A collective; one unit at a time is there in addition.
  NamedTensors full_state(FullStateOptions options = {});
  // The module's buffers by name: this rank's own tensors.
  const NamedTensors& buffers() const;
  // Rank `source`'s values to all, in every buffer. For statistics that each rank keeps for itself, such as BatchNorm's
  // running ones: call it before an evaluation or a save, where ranks are to agree. A collective.
  void broadcast_buffers(int source = 0);
  // A collective.
  FullParameters full_parameters(FullParametersOptions options = {});
  void zero_grad();
  // Gives the parameters that have no values yet (Options::initialise) those of an ordinary construction; does nothing
  // where all have values. A collective.
  void initialise();

  MemoryReport memory() const;
  // From now on the peaks in it are of what comes, beginning with what is there.
  void reset_peak_memory();
  // Which blocks keep what, from what was measured: there from the second step on, where Options::activation_memory is
  // set. The same on every rank.
  std::optional<ActivationDecision> activation_decision() const;

  // Names of the parameters of whose gradients this rank holds an infinity or a NaN, in their order, after a backward.
  // The numbers are those before clipping, whose factor makes all of them NaN where one is: so the culprit is found
  // after `clip_grad_norm_` has returned a norm that is not finite. Changes nothing; no collective.
  std::vector<std::string> gradients_not_finite() const;
  CommunicationReport communication() const;
  // The collective that this rank waits in, for who watches it from another thread: "the gather of unit blocks.4";
  // empty: none of this model's. Any thread, at any time.
  std::string waits_for() const;
  // The plan and cost of a step, for people to read: for each unit its size, how often it is gathered and reduced, how
  // many bytes that brings to this rank and how long this rank waited for it; then which unit is gathered, released and
  // reduced when, in the last step that ended. Many alike are summed up. docs/tracing.md has an example.
  std::string schedule() const;
  // Records what happens when, until the result is written or destroyed. Throws `Error` while another one lives.
  Trace trace();

  // For the rest of the library.
  engine::Model& model() const { return *model_; }
  const std::shared_ptr<engine::Model>& shared_model() const { return model_.get(); }

 private:
  detail::Movable<"ShardedModel", std::shared_ptr<engine::Model>> model_;
};

// Shards the parameters of `module` over the ranks of `world`. The module stays as it is and is called as before, but
// its parameters' bytes exist only while an operator needs them. A collective. Throws `Error` for a model that differs
// between ranks, that is sharded already, or that has parameters which are not fp32, bf16 or fp16 on
// the CPU, or share memory with each other, with a buffer or with an ignored tensor; for a name pattern that matches
// nothing; and for a policy that finds no unit. Other tensors that share memory with a parameter (a detach() in a
// member) keep the values of before: where some live, rank 0 says so on stderr. Make them after this call.
// A module made in deferred_init (deferred_init.h) is made real here, one unit after the other: beside the shards, one
// unit is there whole, the largest of them for a moment.
ShardedModel shard(torch::nn::Module& module, World& world, Options options = {});

// As above, for a scripted or traced module. `options.units` sees a native module with the names, parameters and
// buffers of `module`: a scripted class is a plain torch::nn::Module whose name() is that of the class, so that
// units_by can ask for it, and one whose submodules are called 0, 1, 2, ... is a ModuleList, or a Sequential if its
// class has that name. What asks for other C++ types, as units_of does, finds
// none, which is an Error. Switches TorchScript's fuser for
// CPUs (NNC) off in this process: its kernels read parameters where nobody sees it. docs/determinism.md says when its
// bits agree.
ShardedModel shard(torch::jit::Module& module, World& world, Options options = {});

// One unit given by hand: the tensors that are gathered and reduced together, with the names to report them by.
struct NamedUnit {
  std::string name;
  std::vector<std::pair<std::string, torch::Tensor>> parameters, buffers;
};
// As above, for tensors that no torch::nn::Module owns. `options.units` is not used, `options.ignored` refused. Throws
// `Error` for two units, two parameters or two buffers of one name, and for an undefined tensor.
ShardedModel shard(std::vector<NamedUnit> units, World& world, Options options = {});

}  // namespace fsdp
