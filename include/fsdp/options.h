// Options of `shard`: which modules form units, and how their parameters are kept.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fsdp/movable.h"

namespace fsdp {

// Which part of the training state is divided among the ranks, and how long a unit's parameters stay full. All
// strategies have the same bits (docs/determinism.md). docs/memory.md and docs/communication.md compare their memory
// and traffic.
enum class Strategy {
  FullShard,    // parameters, gradients, optimizer state; full while needed (ZeRO-3, https://arxiv.org/abs/1910.02054)
  ShardGradOp,  // the same; full from the first forward to the end of backward (ZeRO-2)
  ShardOptimizer,     // gradient sums and optimizer state; parameters full until the optimizer changes them (ZeRO-1)
  NoShard,            // nothing: every rank holds all (DDP)
  HybridShard,        // FullShard within groups of ranks, each group holding the whole model
  HybridShardGradOp,  // ShardGradOp within such groups
};

// One unit of a policy.
struct UnitMembers {
  std::string name;  // of the unit, for reports and messages
  // Names of modules, each with everything below it, and of parameters. Empty: all parameters that are in no other
  // unit.
  std::vector<std::string> members = {};
  std::string why_large = {};  // the reason, if it holds more than the policy promises; otherwise empty
};

// Divides a model into units, each gathered and reduced as a whole. A parameter belongs to the unit that lists it, or
// that lists the innermost module around it. All other parameters form one more unit, `root`. A tied parameter belongs
// to the unit of its first name. A value: copy it freely. `shard` throws `Error` for a policy that finds no module with
// parameters, or names a module that the model does not have.
class UnitPolicy {
 public:
  // Names, as in `named_modules`, of the modules of `root` that are units.
  using Choose = std::function<std::vector<std::string>(const torch::nn::Module& root)>;
  // Units of several modules. `ignored` are the name patterns of Options::ignored.
  using Divide =
      std::function<std::vector<UnitMembers>(const torch::nn::Module& root, const std::vector<std::string>& ignored)>;

  // Each chosen module is a unit. Throws `Error` for an empty function.
  explicit UnitPolicy(Choose choose);
  // The function makes the units. Throws `Error` for an empty function.
  explicit UnitPolicy(Divide divide);
  // The units that the policy makes of `root`.
  std::vector<UnitMembers> divide(const torch::nn::Module& root, const std::vector<std::string>& ignored = {}) const;
  // The names of the members of all units.
  std::vector<std::string> choose(const torch::nn::Module& root) const;

 private:
  detail::Movable<"UnitPolicy", Divide> divide_;
};

// The whole model is one unit.
UnitPolicy one_unit();

// Each module for which `is_unit` returns true. `name` is as in `named_modules`.
UnitPolicy units_by(std::function<bool(const std::string& name, const torch::nn::Module& module)> is_unit);

namespace detail {
// Each module for which `is_unit` returns true, or the whole model if that is the only one.
UnitPolicy units_of_types(bool (*is_unit)(const torch::nn::Module& module));
}  // namespace detail

// Each module of one of these types, for example units_of<torch::nn::TransformerEncoderLayerImpl>().
template <typename... Blocks>
UnitPolicy units_of() {
  static_assert(!(torch::detail::is_module_holder<Blocks>::value || ...),
                "units_of takes the class of a module, and a module holder is none: write units_of<BlockImpl>(), not "
                "units_of<Block>()");
  return detail::units_of_types(
      [](const torch::nn::Module& module) { return ((dynamic_cast<const Blocks*>(&module) != nullptr) || ...); });
}

// The smallest modules with at least `numel` parameter elements. A smaller model is one unit.
UnitPolicy units_by_size(int64_t numel);

// The largest share of a model's parameters in one automatic unit, if the modules allow it.
inline constexpr double kLargestUnitShare = 0.25;

// Options of units_automatic.
struct AutomaticUnitsOptions {
  double largest_share = kLargestUnitShare;  // above 0, up to 1
  // Names of parameters in the order in which the model first uses them (order_of_use). A missing name follows the
  // parameter registered before it. Empty: the order in which they are registered.
  std::vector<std::string> order = {};
};

// Units for any model, of at most `largest_share` of its parameters each.
//
// First choice: the children of every container of blocks, plus one unit for the rest. A container of blocks is a
// ModuleList or Sequential of modules of one type, or a ModuleList of modules that hold modules. A module inside such a
// block, for example an expert, is not divided again if an equal block (type and size) stands beside it. So each of n
// equal blocks may hold up to 1/n of the model. Second choice: modules in `order`, put together while a unit holds at
// most half of `largest_share`. It is used if the first choice leaves a unit that is too large, or a rest in more than
// four places between the blocks.
//
// A unit stays larger if a single parameter is, or a recurrent module, because one operator uses all its parameters.
// `shard` then warns, on rank 0. Units of fewer than 8,192 elements are not divided. Throws `Error` for a share out of
// range, and, when used, for a name in `order` that the model does not have.
UnitPolicy units_automatic();
// The same, with options.
UnitPolicy units_automatic(AutomaticUnitsOptions options);

// The names of the module's parameters in the order in which `forward` first uses them on this thread. Unused
// parameters are left out. For a module that is not sharded yet:
//
//   auto order = fsdp::order_of_use(*model, [&] { model->forward(batch); });
//   auto sharded = fsdp::shard(*model, world, {.units = fsdp::units_automatic({.order = order})});
//
// `forward` is called once, with its usual effects: it draws random numbers and writes buffers. Open a
// torch::NoGradGuard around it to keep no graph. Every rank passes the same order to `shard`, which checks it.
std::vector<std::string> order_of_use(const torch::nn::Module& module, const std::function<void()>& forward);

// The dtypes of full parameters, of gradients on the wire and of buffers: fp32, bf16 or fp16. Shards, sums of gradients
// and optimizers are always fp32. With a param_dtype, floating arguments of operators that use parameters and need
// equal dtypes are cast. Other operators promote as usual. docs/from_pytorch.md, "Dtypes of operators", has a table of
// them.
struct MixedPrecision {
  std::optional<torch::ScalarType> param_dtype = std::nullopt;   // of full parameters; none: as they are
  torch::ScalarType reduce_dtype = torch::kFloat32;              // what the wire carries; sums are fp32
  std::optional<torch::ScalarType> buffer_dtype = std::nullopt;  // of floating-point buffers; none: as they are
  // Name patterns of modules, with everything below them, and of parameters and buffers, that keep their own dtype. If
  // param_dtype is set and buffer_dtype is not, modules with a buffer `running_mean` keep theirs as well. A unit with
  // two dtypes becomes two units.
  std::vector<std::string> keep = {};
};

// The tensors in the files of Options::offload_directory.
enum class Offload {
  All,        // shards, in fp32 and in the gathered dtype; sums of gradients, except sums of replicas; optimizer state
  Optimizer,  // optimizer state: 8 of 16 bytes per parameter with AdamW in fp32
  Nothing,    // only activations (Options::offload_activations)
};

// The smallest tensor that Options::offload_activations moves. Smaller ones cost too much time for their memory.
inline constexpr int64_t kLeastOffloadBytes = int64_t{64} << 10;

// Options of `shard`. Every rank gives the same, except offload_directory.
struct Options {
  Strategy strategy = Strategy::FullShard;  // the part of the training state that is divided
  // Consecutive ranks that together hold the model once; a divisor of the world's size. 1 replicates everything, the
  // world's size shards everything, a number between them is hybrid. 0: the world, or for hybrid strategies the ranks
  // of a host.
  int shard_group_size = 0;
  UnitPolicy units = units_automatic();  // parameters that are gathered and reduced together
  MixedPrecision mixed_precision = {};   // dtypes of full parameters, of gradients between ranks, and of buffers
  int buffers = 2;                       // full units at once; at least 2
  int prefetch = 1;                      // units gathered ahead
  // For ranks on GPUs: shards, sums of gradients and optimizer state lie in the host's memory, and optimizers run
  // there. Ranks with a GPU each still exchange parameters and gradients over NCCL. Ranks that share a GPU exchange
  // them through the host's memory (docs/cuda.md). On the CPU this changes nothing.
  bool cpu_offload = false;
  // Name patterns (* and ?) of parameters and buffers to leave alone. For tied ones the first name counts.
  std::vector<std::string> ignored = {};
  bool sync_module_states = true;  // copies rank 0's parameters and buffers to all ranks
  // FullShard and HybridShard over several hosts: each host keeps all gathered parameters, whole, until the next step,
  // instead of `buffers` full units. So they cross the network once per step (docs/memory.md).
  bool full_on_each_host = false;
  // Copies rank 0's buffers to all ranks at the beginning of each training forward, as DDP does. For buffers that a
  // forward both writes and reads, such as a codebook that follows its inputs (docs/determinism.md).
  bool broadcast_buffers = false;
  // A folder, best on a local disk; created if missing. The tensors of `offload` lie in files there that are mapped
  // into memory. A unit's tensors need memory only while the unit is used. The bits are the same. For ranks on the CPU.
  // Each rank has its own files, without names, which vanish with the model or the process. `shard` and the constructor
  // of an optimizer reserve their space on the disk. Each host of a job may use another folder, and several models may
  // share one. From then on, most memory of large freed tensors goes back to the system, as cache for the files. Empty:
  // everything lies in memory. docs/memory.md has sizes and costs.
  std::filesystem::path offload_directory = {};
  Offload offload = Offload::All;  // the tensors in the files of offload_directory
  // If true, the parameters of a deferred module (deferred_init.h) get their first values in `shard`. If false, they
  // have no values yet, and no numbers are drawn for them: load_pretrained, load_checkpoint or
  // ShardedModel::initialise() fills them. Any use before is an Error. Real parameters keep their values.
  bool initialise = true;
  // The most bytes of activations in a step on each rank (MemoryReport::peak_activation_bytes); 0: no limit. In the
  // first step every Recomputed block (activation_checkpoint.h) keeps only its inputs, the least possible, and the
  // library measures the rest. From the second step on each block keeps everything, its products, or its inputs, with
  // the least extra time within these bytes. All ranks decide alike, and bits do not change.
  // ShardedModel::activation_decision() returns the decision; activation_memory.h describes it.
  //
  // The decision fits steps like the measured one, so let the first step have the largest batch. A block with larger
  // inputs than measured keeps only those. A Recomputed inside another one runs again with it, and follows its own
  // options.
  //
  // `shard` throws Error if the module has no Recomputed block, if set_recomputation was called on one, or with
  // offload_activations. The first step's backward throws, on every rank, if the least possible is more than this
  // limit.
  int64_t activation_memory = 0;
  // Moves tensors that a forward saves for its backward out of memory until then: to files in `offload_directory`, or
  // for ranks on GPUs to the host's pinned memory. As torch.autograd.graph.save_on_cpu, or torchtune's
  // enable_activation_offloading. Moved are tensors of at least `offload_activations_from` bytes (a storage counts
  // whole, and once), including the inputs that a recomputed block keeps. Tensors saved during a backward, for example
  // by a block that runs again, stay. The bits are the same. On the CPU a folder is required. If the disk is full, the
  // forward throws Error. docs/memory.md has sizes and costs.
  bool offload_activations = false;
  int64_t offload_activations_from = kLeastOffloadBytes;  // in bytes; 0 or more
  // Every so many steps of an optimizer of the library, ranks compare the bits that they hold in common; 0: never.
  // These are the shards of replicas (NoShard, hybrid strategies, shard_group_size), and buffers that no rank has
  // written since `shard`. With FullShard only buffers are held in common. At a difference `step` throws Error on every
  // rank, after the step. It names the first parameter or buffer that is not equal, and the ranks that differ. A check
  // reads each value once, on the CPU, and exchanges one message of 8 bytes per parameter. It finds bits that memory
  // has flipped, and programs that write other values on some ranks.
  int check_common_every = 0;
};

// A unit as a policy makes it, or as a sharded model has it.
struct UnitSummary {
  std::string name;                          // as the policy named it; `root` has the rest
  std::vector<std::string> parameters = {};  // as in named_parameters; for tied ones the first name
  int64_t numel = 0;                         // their elements, without padding
  int64_t bytes = 0;                         // their bytes when full, in the operators' dtype
};

// The units that `shard` would make of the module, in their order, without sharding it. Needs no ranks. Throws `Error`
// for names and dtypes in the options that `shard` would refuse.
std::vector<UnitSummary> preview_units(const torch::nn::Module& module, const Options& options = {});

}  // namespace fsdp
