// A model whose parameters and gradients are divided among the ranks of a world.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/activation_memory.h"
#include "fsdp/mesh.h"
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
  torch::Tensor piece;         // 1-D, may be empty: a range of the parameter's elements; piece.grad() after backward
  int64_t offset = 0;          // of the piece's first element within the parameter's elements, in memory order
};

// The part of one unit in MemoryReport's activations, in bytes.
struct UnitActivations {
  std::string unit;        // by name
  int64_t bytes = 0;       // now
  int64_t peak_bytes = 0;  // at the peak of all units together
};

// Memory that this rank holds for the model, in bytes.
struct MemoryReport {
  int64_t parameter_bytes = 0;       // shards, in fp32 and in the gathered dtype
  int64_t gradient_bytes = 0;        // gradients of the shards
  int64_t optimizer_bytes = 0;       // state of the optimizers built over the model
  int64_t full_parameter_bytes = 0;  // buffers for gathered units
  int64_t full_gradient_bytes = 0;   // buffers for units whose gradients are being completed or reduced
  // The sum of these, without activations.
  int64_t total_bytes() const {
    return parameter_bytes + gradient_bytes + optimizer_bytes + full_parameter_bytes + full_gradient_bytes;
  }
  // Bytes of saved tensors. Counting starts when a thread first uses a parameter of this model with gradients enabled.
  // It ends with the next backward, or when the thread uses another model. A storage counts once, whole, as long as a
  // graph holds it, however many tensors share it. Inputs and buffers that an operator saved count; parameters do not.
  // In a process with Python, tensors held by saved-tensor hooks do not count either.
  int64_t activation_bytes = 0;                   // now
  int64_t peak_activation_bytes = 0;              // the most since the model was sharded, or `reset_peak_memory`
  std::vector<UnitActivations> activations = {};  // by the unit in use when they were saved, in units' order
  // The part of total_bytes in files of Options::offload_directory. It needs memory only while it is used.
  int64_t offloaded_bytes = 0;
  // Activations moved by Options::offload_activations, to files or to the memory of a GPU's host. In none of the
  // numbers above.
  int64_t offloaded_activation_bytes = 0;       // now
  int64_t peak_offloaded_activation_bytes = 0;  // the most since the model was sharded, or `reset_peak_memory`
  // The copies of save_checkpoint_async, kept from its first call to the model's end.
  int64_t save_copy_bytes = 0;  // in none of the numbers above
};

// How often the model communicated since it was sharded.
struct CommunicationReport {
  int64_t gathers = 0;           // units made full from the shards of several ranks
  int64_t foreseen_gathers = 0;  // gathers that the plan had foreseen
  int64_t reductions = 0;        // units whose gradients were reduced
  int64_t late_gradients = 0;    // gradients after their unit was reduced: their sum may differ in bits
  int64_t all_reductions = 0;    // reductions with replicas as well
  double wait_seconds = 0;       // waits for other ranks, and of steps for a save's copy

  // The difference from an earlier report of the same model, for example over a step.
  //
  //   const CommunicationReport before = sharded.communication();
  //   ...                                                          // a step
  //   const CommunicationReport of_step = sharded.communication().since(before);
  CommunicationReport since(const CommunicationReport& before) const;
};

// Options of ShardedModel::full_parameters.
struct FullParametersOptions {
  bool write_back = true;               // keep writes of the scope; if false, a write is an error
  std::vector<std::string> units = {};  // name patterns (* and ?) of units to make whole; none: all
  // Whole only on rank 0, whose writes count. Otherwise all ranks must write the same values.
  bool rank0_only = false;
};

// Whole tensors by name, for users who save in their own way.
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

// Options of ShardedModel::full_state.
struct FullStateOptions {
  bool rank0_only = false;  // other ranks return nothing, and need one unit's memory instead of the model's
  bool buffers = true;      // after the parameters; `buffers()` also returns this rank's
};

// A scope in which the module's parameters are whole, in the operators' dtype, and can be read and written as usual. If
// that dtype has fewer bits than fp32, unwritten values keep the shard's fp32 bits. A collective: all ranks open and
// close it together. It ends with `close`, or in the destructor, which does not throw.
class FullParameters {
 public:
  // For the rest of the library: `ShardedModel::full_parameters` opens the scope.
  explicit FullParameters(std::unique_ptr<engine::FullScope> scope);
  FullParameters(FullParameters&&) noexcept;
  FullParameters& operator=(FullParameters&&) = delete;
  ~FullParameters();
  // Ends the scope. Throws `Error` for a write that the options forbid.
  void close();

 private:
  detail::Movable<"FullParameters", std::unique_ptr<engine::FullScope>> scope_;  // null once it has ended
};

// A scope whose backwards do not communicate: each rank adds to whole gradients of its own, one unit's memory per unit.
// The next backward outside the scope reduces the sum. Without one, clipping, a step, or reading grad() of a piece
// does. The order of additions differs, and so may bits (docs/determinism.md).
class NoSync {
 public:
  // For the rest of the library: `ShardedModel::no_sync` opens the scope.
  explicit NoSync(std::shared_ptr<engine::Model> model);
  NoSync(NoSync&&) noexcept = default;
  NoSync& operator=(NoSync&&) = delete;
  ~NoSync();

 private:
  detail::Movable<"NoSync", std::shared_ptr<engine::Model>> model_;
};

// A movable handle to the sharded model; the module itself is called as before. Its destructor runs no collective.
// Using a parameter afterwards is an error, and so is using a moved-from handle of this library. Call forward, backward
// and these functions of one model from one thread at a time.
class ShardedModel {
 public:
  // For the rest of the library: `shard` makes the handle.
  explicit ShardedModel(std::shared_ptr<engine::Model> model);
  ShardedModel(ShardedModel&&) noexcept;
  ShardedModel& operator=(ShardedModel&&) noexcept;
  ~ShardedModel();

  // In the order of the units, then of the parameters in them; the same on every rank.
  const std::vector<ShardedParameter>& parameters() const;
  // The units' names and sizes, as from `preview_units`; the same on every rank.
  std::vector<UnitSummary> units() const;
  // Only the pieces. Any torch::optim optimizer that works element by element can use them. Reading a piece's gradient
  // ends the sum (docs/determinism.md). Written values are published at the model's next use.
  std::vector<torch::Tensor> shards() const;

  // Scales the gradients so that their norm over the whole model is at most `max_norm`, and returns the norm before.
  // Counts the parts of divided layers and the other stages of a pipeline. The result does not depend on the number of
  // ranks (docs/determinism.md). With a `max_norm` of 0 all gradients
  // become 0; with infinity they stay as they are. A collective. Throws `Error` when there is no gradient, for a
  // max_norm below 0 or NaN, or for a norm_type that is not positive (infinity is allowed).
  double clip_grad_norm_(double max_norm, double norm_type = 2.0);
  // The same, but the host does not wait for the gradients' device. Returns the norm as [] of float64 there. The factor
  // stays there until an optimizer uses it. norm.item<double>() waits: call it only in steps that print the norm. If
  // the gradients are on the CPU, this is clip_grad_norm_.
  torch::Tensor clip_grad_norm_async_(double max_norm, double norm_type = 2.0);
  // Sets the divisor of the sum over all micro-batches and ranks. By default it is the number of ranks.
  void set_gradient_divisor(double divisor);
  // Every rank runs the same number of backwards in it. If no backward outside the scope follows, the first clip, step
  // or call of a piece's grad() or mutable_grad() reduces. That call is a collective then, and an error inside the
  // scope.
  NoSync no_sync();
  // For uneven inputs: ranks with different numbers of batches. All continue until no rank has another batch. A rank
  // without a batch still takes part in the step, because it owns a part of every parameter.
  //
  //   while (sharded.any_rank_has_batch(batch.has_value())) {
  //     if (batch) model->loss(*batch).backward(); else sharded.backward_without_batch();
  //     optimizer.step();
  //     ...
  //
  // Call it before each backward. The sum is over the ranks with a batch; the divisor does not change. In a step where
  // some ranks have no batch, units are gathered when needed and none ahead. No other communication is allowed in that
  // forward and backward: no SyncBatchNorm, no World call, no evaluation. A collective. `here`: true if this rank has a
  // batch. Returns true if any rank has one.
  bool any_rank_has_batch(bool here);
  // Replaces one forward and one backward. Throws `Error` unless this rank has no batch and another has.
  void backward_without_batch();
  // Copies of every parameter, whole and in fp32, by name, then of this rank's buffers (unless the options leave them
  // out). For this rank's parts see `parameters()`. A collective. Needs one more unit's memory at a time.
  NamedTensors full_state(FullStateOptions options = {});
  // The module's buffers by name: this rank's own tensors.
  const NamedTensors& buffers() const;
  // Copies rank `source`'s buffers to all ranks. For statistics that differ between ranks, such as BatchNorm's running
  // ones: call it before an evaluation or a save. A collective.
  void broadcast_buffers(int source = 0);
  // A collective.
  FullParameters full_parameters(FullParametersOptions options = {});
  // Discards the gradients.
  void zero_grad();
  // Fills parameters without values (Options::initialise) as an ordinary construction would. If all have values, it
  // does nothing. A collective.
  void initialise();

  // This rank's memory for the model, by part.
  MemoryReport memory() const;
  // Restarts the peaks in `memory()`, from the present values.
  void reset_peak_memory();
  // The decision which blocks keep which tensors, with its measurements. It exists from the second step on, if
  // Options::activation_memory is set. The same on every rank.
  std::optional<ActivationDecision> activation_decision() const;

  // Names of the parameters, in their order, with an infinity or a NaN in this rank's part of their gradients, after a
  // backward. It sees the gradients before clipping, so it finds the culprit after `clip_grad_norm_` returned a norm
  // that is not finite. Changes nothing; not a collective.
  std::vector<std::string> gradients_not_finite() const;
  // Counts of gathers and reductions, and the time of waits, since the model was sharded.
  CommunicationReport communication() const;
  // The collective of this model that this rank waits in, for example "the gather of unit blocks.4", or empty. For
  // watchdogs: any thread may call it at any time.
  std::string waits_for() const;
  // The plan and cost of a step, as text. For each unit: its size, the number of gathers and reductions, their bytes to
  // this rank, and this rank's waits for it. Then: when each unit was gathered, released and reduced in the last
  // complete step. Equal lines are summed up. docs/tracing.md has an example.
  std::string schedule() const;
  // Records a timeline and the memory until the result is written or destroyed. Throws `Error` while another trace of
  // this model lives.
  Trace trace(const TraceOptions& options = {});

  // For the rest of the library.
  engine::Model& model() const { return *model_; }
  // For the rest of the library.
  const std::shared_ptr<engine::Model>& shared_model() const { return model_.get(); }

 private:
  detail::Movable<"ShardedModel", std::shared_ptr<engine::Model>> model_;
};

// Shards the parameters of `module` over the ranks of `world`. The module stays as it is and is called as before, but
// its parameters' bytes exist only while an operator needs them. A collective. Throws `Error` for a model that differs
// between ranks or is sharded already. The parameters must be fp32, bf16 or fp16 on the CPU, and must not share memory
// with each other, with a buffer or with an ignored tensor. A name pattern that matches nothing is an error, and so is
// a policy that finds no unit. Other tensors that share memory with a parameter (a detach() in a member) keep their old
// values. If some exist, rank 0 warns on stderr. Make them after this call. A module made in deferred_init
// (deferred_init.h) is made real here, unit by unit: besides the shards, at most one unit is whole at a time.
ShardedModel shard(torch::nn::Module& module, World& world, Options options = {});

// As above, over the ranks along an axis of a mesh. Messages about ranks of other axes name them by their coordinates.
//
// In both: if layers of the module are divided over another axis (tensor_parallel.h), norms, GradScaler and Muon know
// it. Then this is a collective of that axis as well. Throws `Error` if the axis of such a layer is no axis of the
// mesh, or has several ranks in common with the ranks to shard over. Throws `Error`, too, if its ranks have different
// values of a parameter that each of them holds whole.
ShardedModel shard(torch::nn::Module& module, const Mesh& mesh, const std::string& axis, const Options& options = {});

// As above, for a scripted or traced module. `options.units` gets a native module with the names, parameters and
// buffers of `module`. Each scripted class is a plain torch::nn::Module whose name() is the class's, so units_by can
// compare names. A class with submodules 0, 1, 2, ... is a ModuleList, or a Sequential if it has that name. units_of
// finds no units in a scripted module, which is an Error. Switches off TorchScript's fuser for CPUs (NNC) in this
// process, because its kernels read parameters without an operator. docs/determinism.md has the cases in which the bits
// agree.
ShardedModel shard(torch::jit::Module& module, World& world, Options options = {});

// A unit made by hand: tensors that are gathered and reduced together, and their names for reports.
struct NamedUnit {
  std::string name;                                               // of the unit
  std::vector<std::pair<std::string, torch::Tensor>> parameters;  // by name
  std::vector<std::pair<std::string, torch::Tensor>> buffers;     // by name
};
// As above, for tensors outside a torch::nn::Module. `options.units` is not used; `options.ignored` is an error. Throws
// `Error` if two units, two parameters or two buffers have the same name, and for an undefined tensor.
ShardedModel shard(std::vector<NamedUnit> units, World& world, Options options = {});

}  // namespace fsdp
