// What `shard` can be told: which modules form units, and how their parameters are kept.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

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

// Chooses the modules that become units, each gathered and reduced as a whole. Parameters outside of every chosen
// module form one more unit. A value: copy it freely.
class UnitPolicy {
 public:
  // Names, as in `named_modules`, of the modules of `root` that are units.
  using Choose = std::function<std::vector<std::string>(const torch::nn::Module& root)>;

  explicit UnitPolicy(Choose choose) : choose_(std::move(choose)) {}
  std::vector<std::string> choose(const torch::nn::Module& root) const { return choose_(root); }

 private:
  Choose choose_;
};

// Each module for which `is_unit` holds; it sees the name as in `named_modules`.
UnitPolicy units_by(std::function<bool(const std::string& name, const torch::nn::Module& module)> is_unit);

// Each module of one of these types, for example units_of<torch::nn::TransformerEncoderLayerImpl>().
template <typename... Blocks>
UnitPolicy units_of() {
  return units_by([](const std::string&, const torch::nn::Module& module) {
    return ((dynamic_cast<const Blocks*>(&module) != nullptr) || ...);
  });
}

// The smallest modules that hold at least `numel` parameter elements.
UnitPolicy units_by_size(int64_t numel);

// The children of every container of blocks: a ModuleList or Sequential of modules of one type, or a ModuleList of
// modules that hold modules. What lies inside such a block, an expert for example, is not divided again.
UnitPolicy units_automatic();

// The dtypes of full parameters, of gradients on the wire and of buffers: fp32, bf16 or fp16. Shards, sums of gradients
// and optimizers are fp32 whatever these are. With a param_dtype, operators that need equal dtypes get their floating
// activations in that of their parameters; the others promote as always.
struct MixedPrecision {
  std::optional<torch::ScalarType> param_dtype = std::nullopt;   // of full parameters; none: as they are
  torch::ScalarType reduce_dtype = torch::kFloat32;              // what the wire carries; sums are fp32
  std::optional<torch::ScalarType> buffer_dtype = std::nullopt;  // of floating-point buffers; none: as they are
  // Name patterns of modules, with what is below them, parameters and buffers left in their own dtype; so are those of
  // a module with a buffer `running_mean` where param_dtype is set and not buffer_dtype. Units of two dtypes are two.
  std::vector<std::string> keep = {};
};

struct Options {
  Strategy strategy = Strategy::FullShard;
  // Consecutive ranks that hold the model once, a divisor of the world's size: 1 replicates everything, the world
  // shards everything, between them is hybrid. 0: the world, or the ranks of a host for the hybrid strategies.
  int shard_group_size = 0;
  UnitPolicy units = units_automatic();
  MixedPrecision mixed_precision = {};
  int buffers = 2;                        // full units at once; at least 2
  int prefetch = 1;                       // units gathered ahead
  bool cpu_offload = false;               // refused by this version
  std::vector<std::string> ignored = {};  // name patterns (* and ?) of parameters and buffers left alone
  bool sync_module_states = true;         // rank 0's parameters and buffers to all
  // FullShard and HybridShard over several hosts: each host keeps the parameters that its ranks have gathered, whole,
  // until the next step, instead of `buffers` full units: they cross the network once a step (docs/memory.md).
  bool full_on_each_host = false;
};

}  // namespace fsdp
