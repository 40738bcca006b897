// Writes and commits a checkpoint: the last of a save's steps (snapshot.h).
#pragma once

#include <functional>

#include "checkpoint/snapshot.h"
#include "collectives/group.h"

namespace fsdp::checkpoint {

// A collective of the group, whose ranks are those of the world: each writes the file of its rank, if its snapshot has
// one, and rank 0 joins the manifest of what all contribute. Rank 0 always has a file. `take` gives this rank's
// snapshot; its errors, like all others of one rank, are thrown on every rank, and nothing is left then. `file_written`
// is called, once, when the snapshot's tensors are not read any more.
void write_checkpoint(
    collectives::Group& group, const SaveTarget& target, const std::function<Snapshot()>& take,
    const std::function<void()>& file_written = [] {});

}  // namespace fsdp::checkpoint
