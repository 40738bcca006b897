// Steps that the tests of the shm backend among real ranks share.
#pragma once

#include <torch/torch.h>

#include <chrono>

#include "collectives/group.h"
#include "fsdp/world.h"

namespace fsdp::testing {

inline LaunchOptions over_shm(std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  return {.backend = "shm", .timeout = timeout};
}

// Where a unit's gathers go, if they need it.
inline torch::Tensor buffer_of(const collectives::Group& group, const collectives::UnitCollectives& unit) {
  return unit.capabilities().into_buffer ? torch::zeros({unit.shard().numel() * group.size()}) : torch::Tensor();
}

inline void publish_and_gather(collectives::Group& group, collectives::UnitCollectives& unit) {
  const torch::Tensor buffer = buffer_of(group, unit);
  unit.publish();
  unit.begin_gather(buffer, collectives::Order::Common);
  unit.wait_gather();
}

// A unit of one parameter of 1000 elements, sharded over all ranks.
inline void reduce_thousand(collectives::Group& group, collectives::UnitCollectives& unit) {
  const layout::GradientLayout layout(layout::UnitLayout({1000}, group.size(), group.size()), {1});
  collectives::GradientSum sum{torch::zeros({layout.shard_of(group.rank()).numel()}), {0}};
  const torch::Tensor gradients = group.allocate(layout.full_numel() * 4).view(torch::kFloat32);
  unit.begin_reduce({&layout, gradients, {1}, {}}, sum);
  unit.wait_reduce();
}

}  // namespace fsdp::testing
