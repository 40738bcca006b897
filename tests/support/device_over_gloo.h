// A group as on GPUs, for tests where there are none: the CPU stands for the device, and c10d's Gloo for NCCL.
#pragma once

#include <functional>
#include <memory>

#include "collectives/group.h"
#include "fsdp/world.h"

namespace fsdp::testing {

// A collective. `host` makes what stands for the group on the CPU of one.
using WrapHost = std::function<std::unique_ptr<collectives::Group>(std::unique_ptr<collectives::Group>)>;
std::unique_ptr<collectives::Group> make_device_group_over_gloo(World& world, const WrapHost& host = {});

}  // namespace fsdp::testing
