// The nccl backend: c10d's NCCL process groups under the collectives of a device. The only file that needs the headers
// of CUDA and of NCCL.
#ifndef USE_C10D_NCCL  // LibTorch's own CMake files may say so already
#define USE_C10D_NCCL
#endif
#include <ATen/cuda/CUDAContext.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <string>
#include <utility>

#include "base/error.h"
#include "collectives/backends.h"
#include "collectives/device/group.h"

namespace fsdp::collectives {

bool has_nccl() { return true; }

std::string name_of_gpu(torch::Device device) {
  const cudaUUID_t& uuid = at::cuda::getDeviceProperties(device.index())->uuid;
  std::string name;
  for (const char byte : uuid.bytes) name += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return name;
}

// A communicator comes to be with the first collective that it carries.
std::unique_ptr<Group> make_nccl_group(const GroupSpec& spec, std::unique_ptr<Group> host) {
  auto connect = [spec](const std::string& name, int rank, int size) -> c10::intrusive_ptr<c10d::Backend> {
    auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
    options->timeout = 2 * spec.timeout;  // LibTorch ends the process then; the group's own watch comes first
    options->group_name = name;
    auto store = c10::make_intrusive<c10d::PrefixStore>("nccl/" + name, spec.store);
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(std::move(store), rank, size, std::move(options));
  };
  return device::make_group(std::move(host), std::move(connect), spec.device, spec.timeout);
}

}  // namespace fsdp::collectives
