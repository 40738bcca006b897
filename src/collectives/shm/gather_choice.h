// How the units of a group become full: by the memory that the ranks share, or by a copy of it.
//
// Memory near another processor is read more slowly. Where ranks lie on several memory nodes it may pay to copy a
// unit once into a buffer of the rank's own. The ranks find out by trying (gather_trial.h), each with a peer on another
// node; the times of all ranks are added up. On one node a copy gains nothing, and nothing is tried.
// FSDP_SHM_GATHER=map or =copy, the same on every rank, makes the choice instead.
#pragma once

#include <functional>

#include "collectives/shm/context.h"
#include "collectives/shm/gather_trial.h"

namespace fsdp::collectives::shm {

enum class GatherBy { Map, Copy };

using GatherTrial = std::function<GatherSeconds(char* memory)>;

// The choice that all ranks make together. `node` is where this rank's memory is (memory_node.h). A collective.
GatherBy choose_gather(SharedMemoryContext& context, int node, const GatherTrial& trial = try_gathers);

}  // namespace fsdp::collectives::shm
