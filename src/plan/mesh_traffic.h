// Bytes that a rank of a mesh receives in a step. Pure.
#pragma once

#include <fsdp/plan.h>

#include <cstdint>
#include <vector>

#include "plan/blocks.h"
#include "plan/data_traffic.h"
#include "plan/mesh_places.h"

namespace fsdp::plan {

struct RankTraffic {
  Traffic pipeline;    // activations and their gradients, between stages
  Traffic tensor;      // sums and slices, between the parts of layers
  Traffic tied;        // gradients of a tied parameter, between its copies
  Communication data;  // full parameters and gradients, between the data ranks of a stage

  Traffic sum() const;
};

// A head on the last stage that is a copy of an embedding on the first one.
struct TiedCopy {
  int64_t numel = 0;          // of one tensor rank's part; 0: there is none, or it is not trained
  int64_t element_bytes = 4;  // of a micro-batch's gradient; the whole gradient is fp32
};

// A run as its traffic depends on it. The mesh outlives it.
struct MeshRun {
  const Mesh& mesh;
  std::vector<Block> blocks;    // of one tensor rank
  Sharding sharding;            // along the data axis of one stage
  double message_bytes = 0;     // of the tensor between two blocks, for a micro-batch
  DividedTensors tensors = {};  // between the parts of layers
  TiedCopy tied = {};
};

// The traffic of the data ranks of one stage and one tensor rank. Collectives count the bytes of their tensors that a
// rank has to get, whichever way they take: a sum over n ranks 2 (n - 1) / n of it. Messages about shapes, and counts,
// norms and losses, are left out.
class StageTraffic {
 public:
  // Throws Error for a run that contradicts the mesh.
  StageTraffic(const MeshRun& run, const MeshPlaces& places, int64_t pipeline_rank, int64_t tensor_rank);

  RankTraffic of(int64_t data_rank) const;

 private:
  Traffic between_stages(const MeshCoordinates& at) const;
  Traffic between_parts(const MeshCoordinates& at) const;
  Traffic between_copies(const MeshCoordinates& at) const;
  bool has(int stage) const { return run_.mesh.schedule.rank_of(stage) == own_.pipeline; }
  bool is_here(int stage, const MeshCoordinates& at) const;

  MeshRun run_;
  const MeshPlaces& places_;
  MeshCoordinates own_;  // of the first data rank
  std::vector<int> stages_;
  double micro_batches_;
  double tensor_bytes_ = 0;
  DataRanks ranks_;
  DataTraffic data_;
};

}  // namespace fsdp::plan
