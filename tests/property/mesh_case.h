// A case of the property test on meshes: a model, a mesh for each part of its training, and the training. The seed says
// everything. The number of ranks and the backend go through all that there are; the rest is drawn.
#pragma once

#include <fsdp/fsdp.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "property/mesh_model.h"

namespace fsdp::property {

// A mesh of all ranks, and how the model lies on it.
struct MeshLayout {
  int data = 1, pipeline = 1, tensor = 1;
  std::vector<std::string> axes = {};  // in the order of the mesh; some of size 1 are left out
  PipelineOptions pipeline_options = {};
  std::optional<Strategy> strategy = std::nullopt;  // over data; none: the stages are not sharded
  UnitPolicy units = units_automatic();
  bool shard_along_mesh = false;  // by shard(module, mesh, axis), or over the axis as a world
  int micro_batches = 1;          // of each data rank and call
  std::string words = {};

  int size_of(const std::string& axis) const { return axis == "data" ? data : axis == "pipeline" ? pipeline : tensor; }
};

struct MeshCase {
  uint64_t seed = 0;
  MeshModel model = {};
  std::vector<MeshLayout> layouts = {};  // one after the other, with a checkpoint in between
  int steps = 2;                         // on each
  int calls = 1;                         // of Pipeline::step before an optimizer's step
  double clip = 0;                       // 0: no clipping
  bool adamw = true;                     // or SGD with momentum
  bool evaluates = false;                // before each step
  std::string words = {};

  bool is_sharded() const { return layouts[0].strategy.has_value(); }
};

struct MeshCell {
  int ranks = 1;
  std::string backend;
};
const std::vector<MeshCell>& mesh_cells();
const MeshCell& mesh_cell_of(uint64_t seed);
// So many seeds from 0 are the usual test.
uint64_t number_of_mesh_cases();
// One of these for each cell.
std::vector<uint64_t> one_of_each_cell(uint64_t draw);
MeshCase make_mesh_case(uint64_t seed);

}  // namespace fsdp::property
