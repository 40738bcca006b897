// Models on the tests' device, and groups whose gathers and reductions have a stream each, as over NCCL.
#pragma once

#include "api/shard_over.h"
#include "device/process_group.h"
#include "support/device_over_gloo.h"
#include "support/models.h"

namespace fsdp::testing {

inline testing_models::TestModel on_device(testing_models::TestModel model, const torch::Device& device) {
  model.module->to(device);
  return model;
}

inline ShardedModel shard_on_streams(torch::nn::Module& module, World& world, const Options& options = {}) {
  return shard_over([&] { return make_device_group_over_gloo(world, device::make_process_group); }, module, world,
                    options);
}

}  // namespace fsdp::testing
