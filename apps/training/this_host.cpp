#include "training/this_host.h"

#include <ATen/DeviceAccelerator.h>
#include <fsdp/mesh.h>
#include <torch/cuda.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "files/memory_room.h"
#include "metrics/process_memory.h"
#include "planning/host_memory.h"
#include "planning/many_layers.h"
#include "planning/measured_activations.h"
#include "planning/measured_blocks.h"
#include "run/sharding.h"

namespace trainer {

namespace {

// The limits of a rank bound what all ranks can have: they are alike.
std::optional<double> for_all_ranks(const FreeMemory& free, const RunPlan& plan) {
  if (!free.rank) return free.host;
  const Host& host = plan.host;
  const double ranks = static_cast<double>(plan.ranks_of_host());
  const double limited = ranks * (*free.rank + host.process_bytes) + host.program_bytes;
  return std::min(limited, free.host.value_or(limited));
}

// GPUs are assumed to be alike. CUDA's context exists already.
std::optional<double> free_on_gpus(const torch::Device& device, int64_t ranks) {
  const auto gpus = torch::cuda::device_count();
  const size_t free = at::accelerator::getMemoryInfo(device.index()).first;
  return static_cast<double>(free) * static_cast<double>(std::min<int64_t>(ranks, gpus));
}

// Free bytes on the disk of the folder, existing or not.
std::optional<double> free_on_disk_of(std::filesystem::path folder) {
  if (folder.empty()) return std::nullopt;
  std::error_code error;
  folder = std::filesystem::absolute(folder, error);
  while (folder.has_relative_path() && !std::filesystem::exists(folder, error)) folder = folder.parent_path();
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  return error ? std::nullopt : std::optional(static_cast<double>(space.available));
}

// Where layers differ, each of these plans runs steps of as many: of more, that takes longer than a plan may.
constexpr int64_t kMostLayersOfSteps = 512;

}  // namespace

FreeMemory free_memory() {
  FreeMemory free;
  const size_t room = fsdp::files::memory_room().bytes;
  if (room != std::numeric_limits<size_t>::max()) free.host = static_cast<double>(room);
  if (const auto own = process_room()) free.rank = static_cast<double>(*own);
  return free;
}

std::optional<fsdp::World> world_of_blocks(const fsdp::World& world, const RunOptions& options) {
  if (!options.has_mesh()) return std::nullopt;
  return fsdp::Mesh(world, {{"all", world.size()}, {"alone", 1}})["alone"];
}

RunPlan plan_here(fsdp::World& world, const RunOptions& options, const FreeMemory& free,
                  const std::optional<fsdp::World>& alone) {
  RunPlan plan{.options = options};
  if (world.size() % world.local_size() == 0) plan.hosts = world.size() / world.local_size();
  if (options.hosts && options.ranks % *options.hosts == 0) plan.hosts = *options.hosts;
  const torch::Device device = world.device();
  plan.host.on_gpus = device.is_cuda();
  plan.activations = measured_activations(device);
  if (layers_are_alike(options) || options.model.layers <= kMostLayersOfSteps) {
    plan.offload = measured_offload(device);
    plan.tensors = measured_tensors();
  }
  if (alone) plan.blocks = measured_blocks(*alone);
  plan.tensors.bytes(options, most_logits_bytes(plan.host));  // runs a step: the code of a step is in memory then
  plan.host.disk = free_on_disk_of(offload_folder_of(options));
  if (plan.host.on_gpus) {
    plan.host.memory = free_on_gpus(device, plan.ranks_of_host());
    return plan;
  }
  const ProcessMemory process = process_memory();
  plan.host.process_bytes = static_cast<double>(process.resident_bytes - process.shared_bytes);
  plan.host.program_bytes = static_cast<double>(process.shared_bytes);
  plan.host.memory = for_all_ranks(free, plan);
  return plan;
}

}  // namespace trainer
