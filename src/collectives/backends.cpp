#include "collectives/backends.h"

#include <algorithm>

#include "base/error.h"

namespace fsdp::collectives {

std::vector<std::string> backend_names() { return {"gloo"}; }

std::unique_ptr<Group> make_group(const std::string& backend, const GroupSpec& spec) {
  std::vector<std::string> names = backend_names();
  FSDP_CHECK(backend == "auto" || std::count(names.begin(), names.end(), backend) > 0,
             "backend '{}' is not known. Use auto or one of: {}.", backend, fmt::join(names, ", "));
  if (spec.size == 1) return make_single_group();
  return make_gloo_group(spec);
}

}  // namespace fsdp::collectives
