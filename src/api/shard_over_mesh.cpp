// `shard` along an axis of a mesh.
#include <algorithm>

#include "api/shard_over.h"
#include "api/tensor_parallel/tensor_axis.h"
#include "base/error.h"
#include "fsdp/sharded_model.h"
#include "world/state.h"

namespace fsdp {

namespace {

// "rank 5 (data 1, tensor 1)".
std::string name_in(const Mesh& mesh, int rank) {
  const std::vector<int> ranks = job_ranks(mesh.world());
  auto position = static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
  std::string coordinates;
  for (auto axis = mesh.axes().rbegin(); axis != mesh.axes().rend(); ++axis) {
    const std::string one = fmt::format("{} {}", axis->first, position % axis->second);
    coordinates = coordinates.empty() ? one : one + ", " + coordinates;
    position /= axis->second;
  }
  return fmt::format("rank {} ({})", rank, coordinates);
}

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
  return shard_over([&world] { return world.state()->new_group(); }, module, world, options,
                    [mesh](int rank) { return name_in(mesh, rank); });
}

}  // namespace fsdp
