// `shard` along an axis of a mesh.
#include <algorithm>

#include "api/shard_over.h"
#include "api/tensor_parallel/tensor_axis.h"
#include "base/error.h"
#include "fsdp/sharded_model.h"
#include "world/state.h"

namespace fsdp {

namespace {

void check_layers(const torch::nn::Module& module, const Mesh& mesh) {
  for (const World& layers : tensor_worlds_of(module)) {
    const std::vector<int> ranks = job_ranks(layers);
    FSDP_CHECK(std::ranges::any_of(mesh.axes(), [&](const auto& axis) { return job_ranks(mesh[axis.first]) == ranks; }),
               "shard: layers of the module are divided over ranks {}, which are along no axis of the mesh. Make the "
               "layers with an axis of it, such as mesh[\"{}\"]. The mesh:\n{}",
               fmt::join(ranks, ", "), mesh.axes().back().first, mesh.to_string());
  }
}

}  // namespace

ShardedModel shard(torch::nn::Module& module, const Mesh& mesh, const std::string& axis, const Options& options) {
  World world = mesh[axis];
  check_layers(module, mesh);
  return shard_over([&world] { return world.state()->new_group(); }, module, world, options);
}

}  // namespace fsdp
