// The ranks of a run as a grid: data x pipeline x tensor.
#pragma once

#include <fsdp/mesh.h>
#include <fsdp/sharded_model.h>

#include <optional>
#include <string>

#include "models/division.h"
#include "options/options.h"

namespace trainer {

// Without --pipeline-parallel, --tensor-parallel and --tensor-parts there is no grid: all ranks are data ranks.
class RunMesh {
 public:
  // `job` has a multiple of the ranks that hold the model once. A collective.
  RunMesh(const fsdp::World& job, const RunOptions& options);

  // All ranks. Ranks that hold the model once are neighbours: rank / ranks_of_replica() is the data rank.
  fsdp::World& world() { return world_; }
  // Ranks with micro-batches of their own, over which the state is sharded.
  fsdp::World& data() { return data_; }
  // The stages of one model.
  const fsdp::World& pipeline() const { return *pipeline_; }
  bool has_stages() const { return pipeline_ && pipeline_->size() > 1; }
  int ranks_of_replica() const { return world_.size() / data_.size(); }
  torch::Device device() const { return world_.device(); }
  // How the layers of the model are divided.
  const models::Division& division() const { return division_; }
  // For checkpoints and files. None: the data ranks have it all.
  const std::optional<fsdp::Mesh>& mesh() const { return mesh_; }

  // Shards over the data ranks. A collective.
  fsdp::ShardedModel shard(torch::nn::Module& module, const fsdp::Options& options);
  // Where the ranks of a model lie: "tensor and pipeline ranks on one host". Empty without a grid.
  const std::string& places() const { return places_; }

 private:
  std::optional<fsdp::Mesh> mesh_;
  fsdp::World world_, data_;
  std::optional<fsdp::World> pipeline_;
  models::Division division_;
  std::string places_;
};

}  // namespace trainer
