// Stands in for src/collectives/nccl.cpp in programs of the tests' device: c10d's Gloo in NCCL's place, for ranks with
// a GPU each. What comes before and after it is the library's own.
#ifndef USE_C10D_GLOO  // LibTorch's own CMake files may say so already
#define USE_C10D_GLOO
#endif
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <utility>

#include "collectives/backends.h"
#include "collectives/device/group.h"
#include "device/process_group.h"

namespace fsdp::collectives {

bool has_nccl() { return true; }

std::string name_of_gpu(torch::Device device) { return device.str(); }

std::unique_ptr<Group> make_nccl_group(const GroupSpec& spec, std::unique_ptr<Group> host) {
  using c10d::ProcessGroupGloo;
  auto connect = [spec](const std::string& name, int rank, int size) -> c10::intrusive_ptr<c10d::Backend> {
    auto options = ProcessGroupGloo::Options::create(spec.timeout);
    options->threads = 1;  // one collective at a time, as NCCL runs them on one stream
    options->devices.push_back(ProcessGroupGloo::createDeviceForInterface("lo"));
    auto store = c10::make_intrusive<c10d::PrefixStore>("nccl/" + name, spec.store);
    auto gloo = c10::make_intrusive<ProcessGroupGloo>(std::move(store), rank, size, std::move(options));
    return testing::device::make_process_group(std::move(gloo), name);
  };
  return device::make_group(std::move(host), std::move(connect), spec.device, spec.timeout);
}

}  // namespace fsdp::collectives
