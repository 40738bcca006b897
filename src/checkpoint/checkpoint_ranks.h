// The ranks that save and load a checkpoint together: those of the sharded model, or of a mesh that it lies on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "collectives/group.h"
#include "engine/model.h"
#include "fsdp/mesh.h"

namespace fsdp::checkpoint {

// A cheap value. The model outlives it.
class CheckpointRanks {
 public:
  CheckpointRanks(engine::Model& model, const std::optional<Mesh>& mesh);

  int rank() const { return group().rank(); }
  int size() const { return group().size(); }
  // True if there are ranks outside of the model's group.
  bool has_others() const { return world_ && size() > model_->group().size(); }
  // The number of the model's first rank among these. Throws Error if ranks of the model are not among them.
  int leader() const;

  // Runs `body`, which uses `group()` alone. Other groups of this rank learn that it is in this call.
  void run(const std::string& call, const std::function<void(collectives::Group&)>& body) const;
  // As all_succeed of contents.h, among these ranks.
  void all_succeed(const std::string& what, const std::function<void()>& body) const;
  // A further group of these ranks, for tensors on the CPU. A collective.
  std::unique_ptr<collectives::Group> new_host_group() const;
  // Equal for the same ranks and connections.
  const void* identity() const;
  // Throws Error without a mesh.
  World& world() { return world_.value(); }

 private:
  collectives::Group& group() const;

  engine::Model* model_;
  std::optional<World> world_;  // of the mesh
};

// Every rank's text. A collective.
std::vector<std::string> all_gather_texts(collectives::Group& group, const std::string& text);

// The model that all sharded models together are: every parameter and buffer once, without parts. `own` describes this
// rank's model. Throws Error where ranks differ in the shape of one. A collective.
Manifest describe_whole(collectives::Group& group, const Manifest& own, bool is_leader);

}  // namespace fsdp::checkpoint
