// The newest checkpoint of a run that can be loaded: `sample` and --eval-only take it, and say which newer ones they
// pass over.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace trainer {

struct NewestCheckpoint {
  std::vector<std::filesystem::path> newest_first;  // the first whose files are there, and all older ones
  std::vector<std::string> passed_over = {};        // newer ones, and why they cannot be loaded, a sentence each
};

// Reads manifests, and looks for the files that they name. Throws fsdp::Error where a run has no checkpoint, or none
// whose files are there.
NewestCheckpoint newest_checkpoint(const std::filesystem::path& run);

// Calls `load` with one after the other until one is loaded, and returns that one. A checkpoint is not loaded where
// `load` throws fsdp::Error. Throws fsdp::Error where none is loaded.
std::filesystem::path load_newest(const NewestCheckpoint& newest,
                                  const std::function<void(const std::filesystem::path&)>& load,
                                  const std::function<void(const std::string&)>& tell);

}  // namespace trainer
