#include "training/run_mesh.h"

namespace trainer {

namespace {

std::optional<fsdp::Mesh> mesh_for(const fsdp::World& job, const RunOptions& options) {
  if (!options.has_mesh() && options.parts() == 1) return std::nullopt;
  const auto pipeline = static_cast<int>(options.pipeline_parallel), tensor = static_cast<int>(options.tensor_parallel);
  return fsdp::Mesh(job, {{"data", job.size() / (pipeline * tensor)}, {"pipeline", pipeline}, {"tensor", tensor}});
}

models::Division division_of(const std::optional<fsdp::Mesh>& mesh, const RunOptions& options) {
  if (options.parts() == 1) return {};
  return {.tensor = (*mesh)["tensor"],
          .parts = static_cast<int>(options.parts()),
          .sequence_parallel = options.sequence_parallel};
}

bool on_one_host(const fsdp::World& axis) { return axis.local_size() == axis.size(); }

// Where the ranks of all models lie. A collective.
std::string places_of(fsdp::World world, const fsdp::Mesh& mesh) {
  const fsdp::World pipeline = mesh["pipeline"], tensor = mesh["tensor"];
  torch::Tensor alike = torch::tensor({int64_t{on_one_host(pipeline)}, int64_t{on_one_host(tensor)}});
  world.all_reduce_(alike, fsdp::ReduceOp::Min);
  const bool of_pipeline = alike[0].item<int64_t>() != 0, of_tensor = alike[1].item<int64_t>() != 0;
  if (pipeline.size() == 1 && tensor.size() == 1) return "";
  if (pipeline.size() == 1) return of_tensor ? "tensor ranks on one host" : "tensor ranks on several hosts";
  const std::string of_stages = of_pipeline ? "pipeline ranks on one host" : "pipeline ranks on several hosts";
  if (tensor.size() == 1) return of_stages;
  if (of_pipeline == of_tensor) return std::string("tensor and ") + of_stages;
  return (of_tensor ? "tensor ranks on one host, " : "tensor ranks on several hosts, ") + of_stages;
}

int64_t numel_of(const torch::nn::Module& module) {
  int64_t numel = 0;
  for (const torch::Tensor& parameter : module.parameters()) numel += parameter.numel();
  return numel;
}

// A stage may have no layer, or little beside one: its parameters are one unit then.
bool is_one_unit(const torch::nn::Module& stage, const std::vector<std::string>& layers) {
  constexpr double kNearlyAll = 0.9;
  if (layers.size() != 1) return layers.empty();
  const auto layer = static_cast<double>(numel_of(*stage.named_modules()[layers.front()]));
  return layer > kNearlyAll * static_cast<double>(numel_of(stage));
}

}  // namespace

RunMesh::RunMesh(const fsdp::World& job, const RunOptions& options)
    : mesh_(mesh_for(job, options)),
      world_(mesh_ ? mesh_->world() : job),
      data_(mesh_ ? (*mesh_)["data"] : job),
      pipeline_(mesh_ ? std::optional((*mesh_)["pipeline"]) : std::nullopt),
      division_(division_of(mesh_, options)),
      places_(mesh_ ? places_of(world_, *mesh_) : "") {}

fsdp::ShardedModel RunMesh::shard(torch::nn::Module& module, const fsdp::Options& options) {
  if (!mesh_) return fsdp::shard(module, world_, options);
  fsdp::Options sharding = options;
  if (is_one_unit(module, options.units.choose(module))) sharding.units = fsdp::one_unit();
  return fsdp::shard(module, *mesh_, "data", sharding);
}

}  // namespace trainer
