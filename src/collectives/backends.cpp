#include "collectives/backends.h"

#include <algorithm>

#include "base/error.h"

namespace fsdp::collectives {

std::vector<std::string> backend_names() { return {"shm", "gloo", "hosts"}; }

std::unique_ptr<Group> make_group(const std::string& backend, const GroupSpec& spec) {
  std::vector<std::string> names = backend_names();
  FSDP_CHECK(backend == "auto" || std::count(names.begin(), names.end(), backend) > 0,
             "backend '{}' is not known. Use auto or one of: {}.", backend, fmt::join(names, ", "));
  if (spec.size == 1) return make_single_group();
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

}  // namespace fsdp::collectives
