// Stands in for gloo.cpp where the build had no Gloo headers.
#include "base/error.h"
#include "collectives/backends.h"

namespace fsdp::collectives {

std::unique_ptr<Group> make_gloo_group(const GroupSpec& spec) {
  FSDP_CHECK(false,
             "{} ranks need the gloo backend, which this build of libfsdp lacks. Install Gloo's headers (Debian: "
             "libgloo-dev), configure and build again, or use one rank.",
             spec.size);
  return nullptr;
}

}  // namespace fsdp::collectives
