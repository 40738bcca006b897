// The rings of a mesh's collectives, and the times of its exchanges and messages. Pure.
#pragma once

#include <vector>

#include "plan/mesh_places.h"
#include "plan/tensor_traffic.h"
#include "plan/unit_times.h"

namespace fsdp::plan {

// The rings of one stage's data ranks, `group` of which hold the stage once.
UnitRings data_rings(const MeshPlaces& places, int64_t pipeline_rank, int64_t group);
Ring tensor_ring(const MeshPlaces& places);
Ring pipeline_ring(const MeshPlaces& places);

// Seconds of exchanges between tensor ranks, one after the other. A ring's messages are the bytes of exchanged_bytes.
double exchange_seconds(const Exchanges& exchanges, const DividedTensors& tensors, const Ring& ring,
                        const Hardware& hardware);

// Seconds of a message of so many bytes between two ranks.
double message_seconds(double bytes, bool is_within_host, const Hardware& hardware);

// Seconds of a message between each stage and the next, for the first of the data and tensor ranks; 0 if they lie on
// one rank.
std::vector<double> stage_message_seconds(const Mesh& mesh, const MeshPlaces& places, double bytes,
                                          const Hardware& hardware);

}  // namespace fsdp::plan
