#include "support/device_over_gloo.h"

#ifndef USE_C10D_GLOO  // LibTorch's own CMake files may say so already
#define USE_C10D_GLOO
#endif
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "collectives/device/group.h"
#include "world/state.h"

namespace fsdp::testing {

namespace {

using c10d::ProcessGroupGloo;

// The ranks of a job have one parent. The store removes its file with the last of them.
std::string store_file() {
  static int stores = 0;
  return std::filesystem::temp_directory_path() / fmt::format("fsdp-device-{}-{}", getppid(), stores++);
}

}  // namespace

std::unique_ptr<collectives::Group> make_device_group_over_gloo(World& world, const WrapHost& host) {
  return make_device_group_over_gloo(
      world, [](auto gloo, const std::string&) { return gloo; }, host);
}

std::unique_ptr<collectives::Group> make_device_group_over_gloo(World& world, const AroundGloo& around,
                                                                const WrapHost& host) {
  const std::string file = store_file();
  if (world.rank() == 0) std::filesystem::remove(file);  // of killed ranks whose parent had the same number
  world.barrier();
  auto shared = c10::make_intrusive<c10d::FileStore>(file, world.size());
  auto connect = [shared, around](const std::string& name, int rank, int size) -> c10::intrusive_ptr<c10d::Backend> {
    auto options = ProcessGroupGloo::Options::create(std::chrono::seconds(20));
    options->threads = 1;  // one collective at a time, as NCCL runs them on one stream
    options->devices.push_back(ProcessGroupGloo::createDeviceForInterface("lo"));
    auto store = c10::make_intrusive<c10d::PrefixStore>(name, shared);
    return around(c10::make_intrusive<ProcessGroupGloo>(std::move(store), rank, size, std::move(options)), name);
  };
  std::unique_ptr<collectives::Group> on_host = world.state()->new_host_group();
  if (host) on_host = host(std::move(on_host));
  return collectives::device::make_group(std::move(on_host), std::move(connect), world.device());
}

}  // namespace fsdp::testing
