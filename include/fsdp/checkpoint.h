// Saving and loading the state of a training run.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "fsdp/optim.h"
#include "fsdp/sharded_model.h"

namespace fsdp {

// What a checkpoint is made of; the model is required.
struct Checkpoint {
  ShardedModel* model = nullptr;
  Optimizer* optimizer = nullptr;
  int64_t step = 0;  // steps done so far
  // Small texts to keep with it, by name: what else a loop needs to go on where it was. Rank 0's are saved; to read
  // them, `checkpoint_notes`.
  std::map<std::string, std::string> notes = {};
};

// Writes `directory`: every rank its own pieces as safetensors, and one manifest (docs/checkpoint_format.md). It is
// written beside the target and renamed when it is complete, so that no partial checkpoint is ever seen; an existing
// one is replaced. A collective. Throws `Error` on every rank when one of them cannot write.
void save_checkpoint(const std::filesystem::path& directory, const Checkpoint& checkpoint);

// Fills the model, and the optimizer when there is one, and returns the step. A collective, on the number of ranks that
// saved. Throws `Error`, with nothing changed, for a file that is damaged or a checkpoint of another model.
int64_t load_checkpoint(const std::filesystem::path& directory, const Checkpoint& checkpoint);

// The notes that were saved with a checkpoint; no collective. Throws `Error` for what is no checkpoint.
std::map<std::string, std::string> checkpoint_notes(const std::filesystem::path& directory);

// The complete checkpoint of the highest step directly under `directory`, if there is one.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& directory);

}  // namespace fsdp
