#include "collectives/backends.h"

#include <algorithm>

#include "base/error.h"

namespace fsdp::collectives {

std::vector<std::string> backend_names() { return {"shm", "gloo"}; }

std::unique_ptr<Group> make_group(const std::string& backend, const GroupSpec& spec) {
  std::vector<std::string> names = backend_names();
  FSDP_CHECK(backend == "auto" || std::count(names.begin(), names.end(), backend) > 0,
             "backend '{}' is not known. Use auto or one of: {}.", backend, fmt::join(names, ", "));
  if (spec.size == 1) return make_single_group();
  if (backend == "gloo" || (backend == "auto" && !spec.one_host)) return make_gloo_group(spec);
  FSDP_CHECK(spec.one_host,
             "backend shm: the {} ranks of this group are on several hosts, which share no memory. Use auto or gloo.",
             spec.size);
  return make_shm_group(spec);
}

}  // namespace fsdp::collectives
