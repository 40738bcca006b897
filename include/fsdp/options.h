// What `shard` can be told: which modules form units, and how their parameters are kept.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

// Which part of the training state is sharded. This version runs FullShard; `shard` refuses the others.
enum class Strategy { FullShard, ShardGradOp, ShardOptimizer, NoShard, HybridShard, HybridShardGradOp };

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

// The dtypes of full parameters, of gradients on the wire and of buffers. This version keeps every dtype as it is, and
// `shard` refuses other settings.
struct MixedPrecision {
  std::optional<torch::ScalarType> param_dtype = std::nullopt;   // of full parameters; none: as they are
  torch::ScalarType reduce_dtype = torch::kFloat32;              // what the wire carries; sums are fp32
  std::optional<torch::ScalarType> buffer_dtype = std::nullopt;  // of floating-point buffers; none: as they are
  std::vector<std::string> keep = {};                            // name patterns of modules left in their own dtype
};

struct Options {
  Strategy strategy = Strategy::FullShard;
  int shard_group_size = 0;  // ranks that share one copy of the state; 0: all of the world
  UnitPolicy units = units_automatic();
  MixedPrecision mixed_precision = {};
  int buffers = 2;                        // full units at once; at least 2
  int prefetch = 1;                       // units gathered ahead
  bool cpu_offload = false;               // refused by this version
  std::vector<std::string> ignored = {};  // name patterns (* and ?) of parameters left alone
  bool sync_module_states = true;         // rank 0's parameters and buffers to all
};

}  // namespace fsdp
