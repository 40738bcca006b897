// Stands in for gloo.cpp where the build had no Gloo headers.
#include "base/error.h"
#include "collectives/backends.h"

namespace fsdp::collectives {

std::unique_ptr<Transport> make_gloo_transport(const GroupSpec& spec) {
  FSDP_CHECK(
      false,
      "{} ranks on several hosts need the gloo backend, which this build of libfsdp lacks. Install Gloo's headers "
      "(Debian: libgloo-dev), configure and build again, or use ranks of one host.",
      spec.size);
  return nullptr;
}

std::shared_ptr<Wire> make_gloo_wire(const GroupSpec& spec) {
  make_gloo_transport(spec);
  return nullptr;
}

std::unique_ptr<Group> make_gloo_group(const GroupSpec& spec) {
  make_gloo_transport(spec);
  return nullptr;
}

}  // namespace fsdp::collectives
