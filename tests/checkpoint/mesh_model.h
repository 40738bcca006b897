// A model in blocks with divided layers, on a mesh of data, pipeline and tensor ranks.
#pragma once

#include <fsdp/fsdp.h>

#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::testing {

struct MeshShape {
  int data = 1, pipeline = 1, tensor = 1, stages_per_rank = 1;
  Strategy strategy = Strategy::FullShard;
  bool tied = false;  // another model, without divided layers
  bool muon = false;  // of all matrices, in place of AdamW
  StateDtype state_dtype = StateDtype::Float32;

  int ranks() const { return data * pipeline * tensor; }
  std::string name() const {
    return std::to_string(data) + "x" + std::to_string(pipeline) + "x" + std::to_string(tensor) + "x" +
           std::to_string(stages_per_rank) + (strategy == Strategy::FullShard ? "" : "_NoShard") +
           (muon ? "_Muon" : "") + (state_dtype == StateDtype::Float32 ? "" : "_Block8");
  }
  friend void PrintTo(const MeshShape& one, std::ostream* out) { *out << one.name(); }
};

// Made on every rank of a world of `shape.ranks()`.
class MeshTraining {
 public:
  MeshTraining(World& world, const MeshShape& shape, int seed = 1);

  // All data ranks train on the same batch.
  void step_to(int last);
  Checkpoint checkpoint() { return {.model = &sharded, .optimizer = optimizer.get(), .step = steps, .mesh = mesh}; }
  // Parameters, buffers and the optimizer's state, whole. On one rank.
  std::vector<std::pair<std::string, torch::Tensor>> state();

  Mesh mesh;
  MeshShape shape;
  Pipeline pipeline;
  ShardedModel sharded;
  std::unique_ptr<Optimizer> optimizer;
  int steps = 0;
};

}  // namespace fsdp::testing
