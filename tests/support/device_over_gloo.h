// A group as on GPUs, for tests where there are none: the CPU stands for the device, and c10d's Gloo for NCCL.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <functional>
#include <memory>
#include <string>

#include "collectives/group.h"
#include "fsdp/world.h"

namespace fsdp::testing {

// A collective. `host` makes what stands for the group on the CPU of one.
using WrapHost = std::function<std::unique_ptr<collectives::Group>(std::unique_ptr<collectives::Group>)>;
std::unique_ptr<collectives::Group> make_device_group_over_gloo(World& world, const WrapHost& host = {});

// For a world on another device: `around` makes the process group of that device's tensors, with c10d's Gloo within, of
// the group with that name.
using AroundGloo =
    std::function<c10::intrusive_ptr<c10d::Backend>(c10::intrusive_ptr<c10d::Backend> gloo, const std::string& name)>;
std::unique_ptr<collectives::Group> make_device_group_over_gloo(World& world, const AroundGloo& around,
                                                                const WrapHost& host = {});

}  // namespace fsdp::testing
