// The state that a save writes, at one moment: the first of a save's steps.
//
//   describe   snapshot_of: what there is, and how it is called        in the call
//   stage      stage: copies, where training goes on meanwhile         beside the program
//   write      write_checkpoint: each rank its file                    in the call, or beside the program
//   commit     write_checkpoint: the manifest, and the name            the same
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_ranks.h"
#include "checkpoint/contents.h"

namespace fsdp::checkpoint {

// Where a save goes, and what its errors begin with.
struct SaveTarget {
  std::filesystem::path directory;  // absolute
  std::string what;                 // "save_checkpoint /runs/step-5"
};

// The snapshot of one rank.
struct Snapshot {
  Manifest manifest;                // this rank's contribution (joined_manifest.h): all but the files
  bool has_file = false;            // it writes one; ranks that hold what others write do not
  NamedTensors tensors;             // of this rank's file: they share memory with the model and the optimizer
  std::vector<FileTensor> of = {};  // by tensor
  NamedTensors generators;          // this rank's states
  int leader = 0;                   // the first rank of this rank's sharded model, among those of the save
  bool has_others = false;          // the save has ranks outside of it
};

// Throws Error for a Checkpoint that cannot be saved now. `call` names who asks. No collective.
SaveTarget save_target(const char* call, const std::filesystem::path& directory, const Checkpoint& checkpoint);

// No collective. Throws Error.
Snapshot snapshot_of(const Checkpoint& checkpoint);

}  // namespace fsdp::checkpoint
