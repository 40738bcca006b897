// The training of a case, on a mesh and on one process.
#pragma once

#include <fsdp/fsdp.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "property/mesh_case.h"

namespace fsdp::property {

// A result that has the same bits on one process: a loss, a norm, an output, a weight.
struct MeshFact {
  std::string name;
  torch::Tensor value;
  // Of the part of a weight that this rank holds.
  std::optional<ParameterDivision> division = std::nullopt;
};

// A rank's results. `folder` is the same on every rank, and gets the checkpoints. A collective.
std::vector<MeshFact> train_on_mesh(const MeshCase& drawn, World& world, const std::filesystem::path& folder);

// All results, by name, from one process: a loop over the micro-batches of all data ranks, in rounds.
std::map<std::string, torch::Tensor> train_alone(const MeshCase& drawn, const World& alone);

}  // namespace fsdp::property
