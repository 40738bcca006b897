// Stands in for nccl.cpp where LibTorch has no NCCL, or the build no headers of CUDA.
#include "base/error.h"
#include "collectives/backends.h"

namespace fsdp::collectives {

bool has_nccl() { return false; }

std::string name_of_gpu(torch::Device device) { return device.str(); }

std::unique_ptr<Group> make_nccl_group(const GroupSpec& spec, std::unique_ptr<Group>) {
  FSDP_CHECK(
      false,
      "{} ranks were to use the nccl backend, which this build of libfsdp lacks. Build it against a LibTorch with "
      "CUDA (docs/cuda.md), or use auto.",
      spec.size);
  return nullptr;
}

}  // namespace fsdp::collectives
