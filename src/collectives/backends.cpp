#include "collectives/backends.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "base/error.h"

namespace fsdp::collectives {

namespace {

constexpr char kNccl[] = "nccl";

// For tensors on the CPU, of more ranks than one.
std::unique_ptr<Group> make_cpu_group(const std::string& backend, const GroupSpec& spec) {
  if (backend == "gloo") return make_gloo_group(spec);
  if (spec.one_host) return make_shm_group(spec);
  FSDP_CHECK(backend != "shm",
             "backend shm: the {} ranks of this group are on several hosts, which share no memory. Use auto, hosts or "
             "gloo.",
             spec.size);
  if (spec.ranks_of_a_host > 1) return make_hosts_group(spec);
  FSDP_CHECK(
      backend == "auto" || spec.ranks_of_a_host == 1,
      "backend hosts: the {} ranks of this group are not as many on every host, or not numbered one host's after "
      "another's. Start them so (SLURM: --distribution=block), or use auto or gloo.",
      spec.size);
  return make_gloo_group(spec);
}

// For tensors on GPUs.
std::unique_ptr<Group> make_gpu_group(const std::string& backend, const GroupSpec& spec) {
  FSDP_CHECK(backend != kNccl || !spec.shares_device,
             "backend nccl: found ranks that share a GPU among the {} ranks of this group, expected a GPU for each. "
             "Start one rank per GPU, or use auto.",
             spec.size);
  GroupSpec on_cpu = spec;
  on_cpu.store = c10::make_intrusive<c10d::PrefixStore>("host", spec.store);
  std::unique_ptr<Group> host = make_cpu_group("auto", on_cpu);
  if (goes_over_nccl(spec)) return make_nccl_group(spec, std::move(host));
  return make_staged_group(std::move(host), spec.device);
}

}  // namespace

bool goes_over_nccl(const GroupSpec& spec) {
  return !spec.device.is_cpu() && spec.size > 1 && has_nccl() && !spec.shares_device;
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names{"shm", "gloo", "hosts"};
  if (has_nccl()) names.push_back(kNccl);
  return names;
}

std::string problem_of_backend(const std::string& backend) {
  const std::vector<std::string> names = backend_names();
  if (backend == "auto" || std::count(names.begin(), names.end(), backend) > 0) return {};
  return fmt::format("backend is '{}', {}expected auto or one of: {}.", backend,
                     backend == kNccl ? "which this build of libfsdp lacks (docs/cuda.md), " : "",
                     fmt::join(names, ", "));
}

std::unique_ptr<Group> make_group(const std::string& backend, const GroupSpec& spec) {
  const std::string problem = problem_of_backend(backend);
  FSDP_CHECK(problem.empty(), "{}", problem);
  if (spec.size == 1) return make_single_group(spec.device);
  return spec.device.is_cpu() ? make_cpu_group(backend, spec) : make_gpu_group(backend, spec);
}

}  // namespace fsdp::collectives
