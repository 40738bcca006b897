// Which parts of a model each of its holders writes: ranks that hold the same elements write them once.
//
// A model may lie on several groups of ranks, each with a sharded model of its own: stages of a pipeline, or divided
// layers. Elements that several of them have, for example a norm's between divided layers, are written by the first.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/joined_manifest.h"
#include "checkpoint/segments.h"

namespace fsdp::checkpoint {

// A rank's contribution, and the first rank of its sharded model.
struct HeldParts {
  int leader = 0;
  Contribution contribution = {};
};

// The parts of its pieces, and the buffers, that a rank writes.
struct OwnParts {
  std::map<std::string, std::vector<Segment>> segments;  // by parameter
  std::set<std::string> buffers;                         // by name
};

// Removes from each contribution the parts and buffers that a model with a lower leader has. On entry offsets count in
// the rank's pieces, on return in its file. Returns, for each contribution, where the parts lie in the pieces. Throws
// Error for parts that cannot be cut.
std::vector<OwnParts> keep_own_parts(std::vector<HeldParts>& all);

}  // namespace fsdp::checkpoint
