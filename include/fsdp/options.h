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

// Which part of the training state is divided among the ranks, and how long a unit's parameters stay full. All give the
// same bits (docs/determinism.md); docs/memory.md and
// docs/communication.md compare what they hold and move.
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
  std::string name;
  // Names of modules, each with all that lies below it, and of parameters. None: the parameters of no other unit.
  std::vector<std::string> members = {};
  std::string why_large = {};  // why it holds more than the policy promises; empty where it does not
};

// Divides a model into units, each gathered and reduced as a whole. A parameter belongs to the unit that has the
// innermost module around it as a member, or itself; those of no unit form one more, `root`. A tied one goes where it
// comes first. A value: copy it freely. `shard` throws `Error` for a policy that finds no module with parameters, or
// names one that the model does not have.
class UnitPolicy {
 public:
  // Names, as in `named_modules`, of the modules of `root` that are units.
  using Choose = std::function<std::vector<std::string>(const torch::nn::Module& root)>;
  // Units of several modules. `ignored` are the name patterns of Options::ignored.
  using Divide =
      std::function<std::vector<UnitMembers>(const torch::nn::Module& root, const std::vector<std::string>& ignored)>;

  // Throw `Error` for an empty function.
  explicit UnitPolicy(Choose choose);
  explicit UnitPolicy(Divide divide);
  std::vector<UnitMembers> divide(const torch::nn::Module& root, const std::vector<std::string>& ignored = {}) const;
  // The names of the members of all units.
  std::vector<std::string> choose(const torch::nn::Module& root) const;

 private:
  detail::Movable<"UnitPolicy", Divide> divide_;
};

// The whole model is one unit.
UnitPolicy one_unit();

// Each module for which `is_unit` holds; it sees the name as in `named_modules`.
UnitPolicy units_by(std::function<bool(const std::string& name, const torch::nn::Module& module)> is_unit);

namespace detail {
// Each module for which `is_unit` holds, or the whole model where there is none and it holds for that.
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

// The smallest modules that hold at least `numel` parameter elements; the whole model where it holds fewer.
UnitPolicy units_by_size(int64_t numel);

// The share of a model's parameters that an automatic unit holds at most, wherever its modules allow.
inline constexpr double kLargestUnitShare = 0.25;

struct AutomaticUnitsOptions {
  double largest_share = kLargestUnitShare;  // above 0, up to 1
  // Names of parameters in the order in which the model first uses them (order_of_use); those left out follow the one
  // registered before them. Empty: the order in which they are registered.
  std::vector<std::string> order = {};
};

// Units for any model, of at most `largest_share` of its parameters each.
//
// First choice: the children of every container of blocks, which is a ModuleList or Sequential of modules of one type,
// or a ModuleList of modules that hold modules; the rest is one more unit. What lies inside such a block, an expert for
// example, is not divided again where an equal block (type and size) stands beside it: of n equal blocks each may hold
// up to 1/n of the model.
// Otherwise, where the first choice leaves a unit that is too large, or a rest that lies in more than four places
// between the blocks: modules in `order`, put together as long as a unit holds at most half of `largest_share`.
//
// A unit remains larger where one parameter is, or a recurrent module, whose parameters one operator takes: `shard`
// then warns, on rank 0. A unit of fewer than 8,192 elements is not cut. Throws `Error` for a share out of
// range, and when used for a name in `order` that the model does not have.
UnitPolicy units_automatic();
UnitPolicy units_automatic(AutomaticUnitsOptions options);

// The names of the module's parameters in the order in which `forward` first uses them on this thread; those that it
// does not use are left out. For a module that is not sharded yet:
//
//   auto order = fsdp::order_of_use(*model, [&] { model->forward(batch); });
//   auto sharded = fsdp::shard(*model, world, {.units = fsdp::units_automatic({.order = order})});
//
// `forward` is called once, and does what it does: open a torch::NoGradGuard around it to keep no graph, and mind that
// it draws random numbers and writes buffers as always. Every rank passes the same order to `shard`, which checks it.
std::vector<std::string> order_of_use(const torch::nn::Module& module, const std::function<void()>& forward);

// The dtypes of full parameters, of gradients on the wire and of buffers: fp32, bf16 or fp16. Shards, sums of gradients
// and optimizers are fp32 whatever these are. With a param_dtype, operators that take parameters and need equal dtypes
// get their floating arguments cast; the others promote as always. docs/from_pytorch.md, "Dtypes of operators", has a
// table of them.
struct MixedPrecision {
  std::optional<torch::ScalarType> param_dtype = std::nullopt;   // of full parameters; none: as they are
  torch::ScalarType reduce_dtype = torch::kFloat32;              // what the wire carries; sums are fp32
  std::optional<torch::ScalarType> buffer_dtype = std::nullopt;  // of floating-point buffers; none: as they are
  // Name patterns of modules, with what is below them, parameters and buffers left in their own dtype; so are those of
  // a module with a buffer `running_mean` where param_dtype is set and not buffer_dtype. Units of two dtypes are two.
  std::vector<std::string> keep = {};
};

// What lies in the files of Options::offload_directory.
enum class Offload {
  All,  // shards, in fp32 and in the dtype that is gathered; sums of gradients, but those of replicas; optimizer state
  Optimizer,  // optimizer state: 8 of 16 bytes per parameter with AdamW in fp32
  Nothing,    // for activations alone (Options::offload_activations)
};

// The least that Options::offload_activations moves: what is smaller costs more time than memory.
inline constexpr int64_t kLeastOffloadBytes = int64_t{64} << 10;

struct Options {
  Strategy strategy = Strategy::FullShard;
  // Consecutive ranks that hold the model once, a divisor of the world's size: 1 replicates everything, the world
  // shards everything, between them is hybrid. 0: the world, or the ranks of a host for the hybrid strategies.
  int shard_group_size = 0;
  UnitPolicy units = units_automatic();
  MixedPrecision mixed_precision = {};
  int buffers = 2;   // full units at once; at least 2
  int prefetch = 1;  // units gathered ahead
  // Of ranks on GPUs: shards, sums of gradients and optimizer state lie in the host's memory, and optimizers step
  // there. Ranks with a GPU each exchange parameters and gradients over NCCL all the same; ranks that share one,
  // through the host's memory (docs/cuda.md). On the CPU they lie there anyway, and nothing changes.
  bool cpu_offload = false;
  // Name patterns (* and ?) of parameters and buffers left alone. Of tied ones the first name counts.
  std::vector<std::string> ignored = {};
  bool sync_module_states = true;  // rank 0's parameters and buffers to all
  // FullShard and HybridShard over several hosts: each host keeps the parameters that its ranks have gathered, whole,
  // until the next step, instead of `buffers` full units: they cross the network once per step (docs/memory.md).
  bool full_on_each_host = false;
  // Rank 0's buffers to all at the beginning of each training forward, as DDP does: for what a forward both writes and
  // reads, such as a codebook that follows its inputs (docs/determinism.md).
  bool broadcast_buffers = false;
  // A folder, made where it is missing, best on a local disk: what `offload` says lies in files there that are mapped
  // into memory, which a unit's takes only while the unit is used. The bits are the same. Each rank has files of its
  // own, without names, which are gone when the model is, or the process; their room on the disk is taken in `shard`
  // and where an optimizer is made. Of a job each host may name another folder, and several models may share one.
  // For ranks on the CPU. Most memory of large tensors goes back to the system from then on when they are freed, as
  // cache for the files. Empty: everything lies in memory. docs/memory.md has sizes and costs.
  std::filesystem::path offload_directory = {};
  Offload offload = Offload::All;
  // Whether the parameters of a deferred module (deferred_init.h) get their first values in `shard`. Without, they have
  // none yet, and nothing is drawn for them: load_pretrained or load_checkpoint fills them, or
  // ShardedModel::initialise() does; any use before is an Error. Parameters that are real keep their values.
  bool initialise = true;
  // Bytes that the activations of a step may take at most on each rank (MemoryReport::peak_activation_bytes); 0: any.
  // The first step measures what its Recomputed blocks (activation_checkpoint.h) would keep, while each keeps its
  // inputs alone, which is the least that there can be. From the second step on each keeps everything, its products, or
  // its inputs, so that the least time is lost within these bytes; all ranks decide alike, and bits do not change.
  // ShardedModel::activation_decision() tells what was decided; activation_memory.h how.
  //
  // It holds for steps like the measured one. A block whose inputs are larger than then keeps those alone: let the
  // first step have the largest batch. A Recomputed inside of another is run again with it and keeps what its own
  // options say.
  //
  // `shard` throws Error where the module has no Recomputed block, or where one is told what to keep
  // (set_recomputation), or with offload_activations. The first step's backward throws, on every rank, where the least
  // is more than this.
  int64_t activation_memory = 0;
  // Tensors that a forward saves for its backward leave memory meanwhile: to files in `offload_directory`, or, of ranks
  // on GPUs, to the host's memory, pinned. Those of at least `offload_activations_from` bytes (a storage counts whole,
  // and once), and not what a backward saves itself, such as a block that runs again; the inputs that such a block
  // keeps are among them. The bits are the same. torch.autograd.graph.save_on_cpu, or torchtune's
  // enable_activation_offloading. An error without a folder on the CPU. A full disk is an Error of the forward.
  // docs/memory.md has sizes and costs.
  bool offload_activations = false;
  int64_t offload_activations_from = kLeastOffloadBytes;  // in bytes; 0 or more
};

// A unit as a policy makes it, or as a sharded model has it.
struct UnitSummary {
  std::string name;
  std::vector<std::string> parameters = {};  // names, as in named_parameters; a tied one's first
  int64_t numel = 0;                         // elements of them, without padding
  int64_t bytes = 0;                         // of them when they are full, in the dtype that operators see
};

// The units that `shard` would make of the module, in their order, without sharding it. No collective: it needs no
// ranks. Throws `Error` for what `shard` refuses about names and dtypes in the options.
std::vector<UnitSummary> preview_units(const torch::nn::Module& module, const Options& options = {});

}  // namespace fsdp
