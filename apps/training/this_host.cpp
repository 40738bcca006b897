#include "training/this_host.h"

#include <ATen/DeviceAccelerator.h>
#include <torch/cuda.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>

#include "files/memory_room.h"
#include "metrics/process_memory.h"
#include "run/sharding.h"
#include "training/step_code.h"

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

}  // namespace

FreeMemory free_memory() {
  FreeMemory free;
  const size_t room = fsdp::files::memory_room().bytes;
  if (room != std::numeric_limits<size_t>::max()) free.host = static_cast<double>(room);
  if (const auto own = process_room()) free.rank = static_cast<double>(*own);
  return free;
}

std::string gpu_here(const fsdp::World& world) {
  constexpr std::string_view kModel = "Model:";
  if (!world.device().is_cuda()) return "";
  std::error_code ignored;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", ignored)) {
    std::ifstream facts(gpu.path() / "information");
    for (std::string line; std::getline(facts, line);) {
      if (line.starts_with(kModel)) return line.substr(kModel.size());
    }
  }
  return "GPU";
}

RunPlan plan_here(fsdp::World& world, const RunOptions& options, const FreeMemory& free) {
  RunPlan plan{.options = options};
  const bool even = world.size() % world.local_size() == 0;
  const int64_t hosts = options.hosts.value_or(even ? world.size() / world.local_size() : 1);
  if (options.ranks % hosts == 0) plan.hosts = hosts;
  const torch::Device device = world.device();
  plan.host.on_gpus = device.is_cuda();
  plan.host.disk = free_on_disk_of(offload_folder_of(options));
  if (plan.host.on_gpus) {
    plan.host.memory = free_on_gpus(device, plan.ranks_of_host());
    return plan;
  }
  load_code_of_steps(options);
  const ProcessMemory process = process_memory();
  plan.host.process_bytes = static_cast<double>(process.resident_bytes - process.shared_bytes);
  plan.host.program_bytes = static_cast<double>(process.shared_bytes);
  plan.host.memory = for_all_ranks(free, plan);
  return plan;
}

}  // namespace trainer
