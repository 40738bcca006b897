// A group as on GPUs, for tests where there are none: the CPU stands for the device, and c10d's Gloo for NCCL.
#pragma once

#include <memory>

#include "collectives/group.h"
#include "fsdp/world.h"

namespace fsdp::testing {

// A collective.
std::unique_ptr<collectives::Group> make_device_group_over_gloo(World& world);

}  // namespace fsdp::testing
