#include "run/sharding.h"

#include <filesystem>
#include <map>

#include "models/layer_units.h"

namespace trainer {

namespace {

fsdp::Strategy strategy_of(const std::string& word) {
  static const std::map<std::string, fsdp::Strategy> strategies = {
      {"full-shard", fsdp::Strategy::FullShard},           {"shard-grad-op", fsdp::Strategy::ShardGradOp},
      {"shard-optimizer", fsdp::Strategy::ShardOptimizer}, {"no-shard", fsdp::Strategy::NoShard},
      {"hybrid-shard", fsdp::Strategy::HybridShard},       {"hybrid-shard-grad-op", fsdp::Strategy::HybridShardGradOp}};
  return strategies.at(word);
}

torch::ScalarType dtype_of(const std::string& word) {
  static const std::map<std::string, torch::ScalarType> dtypes = {
      {"fp32", torch::kFloat32}, {"bf16", torch::kBFloat16}, {"fp16", torch::kHalf}};
  return dtypes.at(word);
}

fsdp::Offload offload_of(const std::string& word) {
  static const std::map<std::string, fsdp::Offload> parts = {
      {"none", fsdp::Offload::Nothing}, {"optimizer", fsdp::Offload::Optimizer}, {"all", fsdp::Offload::All}};
  return parts.at(word);
}

}  // namespace

std::filesystem::path offload_folder_of(const ShardedModelOptions& options) {
  if (!options.offloads() && !options.offload_activations) return {};
  if (!options.offload_directory.empty()) return options.offload_directory;
  return std::filesystem::path(options.run) / "offload";
}

torch::ScalarType compute_dtype_of(const ShardedModelOptions& options) { return dtype_of(options.param_dtype); }

fsdp::Options sharding_of(const ShardedModelOptions& options) {
  fsdp::MixedPrecision precision{.reduce_dtype = dtype_of(options.reduce_dtype)};
  // The model is made in fp32: there is nothing to convert to that.
  if (options.param_dtype != "fp32") precision.param_dtype = dtype_of(options.param_dtype);
  return {.strategy = strategy_of(options.strategy),
          .shard_group_size = static_cast<int>(options.shard_group_size),
          .units = models::layer_units(options.layers_per_unit),
          .mixed_precision = precision,
          .buffers = static_cast<int>(options.buffers),
          .prefetch = static_cast<int>(options.prefetch),
          .cpu_offload = options.cpu_offload,
          .offload_directory = offload_folder_of(options),
          .offload = offload_of(options.offload),
          .initialise = false,
          .offload_activations = options.offload_activations};
}

}  // namespace trainer
