#include "world/device.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/cuda.h>

#include "base/error.h"

namespace fsdp::world {

torch::Device choose_device(const std::string& backend, int local_rank, int gpus) {
  FSDP_CHECK(backend != "nccl" || gpus > 0,
             "backend nccl: found no GPU that CUDA can use (is the driver loaded, and what does CUDA_VISIBLE_DEVICES "
             "say?). To compute on the CPU, use auto.");
  const bool on_gpu = gpus > 0 && (backend == "nccl" || backend == "auto");
  if (!on_gpu) return torch::kCPU;
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(local_rank % gpus)};
}

torch::Device take_device(const std::string& backend, int local_rank) {
  const bool asks = backend == "nccl" || backend == "auto";
  const int gpus = asks ? static_cast<int>(torch::cuda::device_count()) : 0;
  const torch::Device device = choose_device(backend, local_rank, gpus);
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
  return device;
}

std::string place_of_gpu(const std::string& backend, const std::string& machine, const std::string& gpu,
                         const char* nccl_host) {
  const bool is_named = backend == "nccl" && nccl_host != nullptr && *nccl_host != '\0';
  return fmt::format("{} {}", is_named ? nccl_host : machine, gpu);
}

}  // namespace fsdp::world
