// The hosts of a mesh's ranks, in words. Pure.
#pragma once

#include <string>

#include "plan/mesh_places.h"

namespace trainer {

// "tensor ranks share a host; the ranks of a pipeline lie on 2 hosts: 0-1, 2-3; data ranks share a host".
std::string places_text(const fsdp::plan::MeshPlaces& places);

}  // namespace trainer
