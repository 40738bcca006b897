// Bytes that a rank of a mesh receives in a step. Pure.
#pragma once

#include <cstdint>

#include "planning/mesh_places.h"

namespace trainer {

// From ranks of the same host, and from others.
struct Traffic {
  double within = 0, across = 0;

  double sum() const { return within + across; }
  void add(double bytes, bool is_within) { (is_within ? within : across) += bytes; }
};

struct RankTraffic {
  Traffic pipeline;                                 // activations and their gradients, between stages
  Traffic tensor;                                   // sums and slices, between the parts of layers
  Traffic gathers;                                  // full parameters
  Traffic reductions;                               // gradients, between the data ranks of a stage
  Traffic tied;                                     // gradients of a tied parameter, between its copies
  int64_t gathers_count = 0, reductions_count = 0;  // of units

  Traffic sum() const;
};

// The traffic of the rank at these coordinates. Collectives count the bytes of their tensors that a rank has to get,
// whichever way they take: a sum over n ranks 2 (n - 1) / n of it. Messages about shapes, and counts, norms and losses,
// are left out.
RankTraffic traffic_of_rank(const RunOptions& options, bool on_gpus, const PlannedMesh& mesh, const MeshPlaces& places,
                            const MeshCoordinates& at);

}  // namespace trainer
