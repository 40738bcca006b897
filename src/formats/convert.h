// From one format to another, one tensor at a time.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "formats/sink.h"
#include "formats/source.h"

namespace fsdp::formats {

struct Conversion {
  Format to = Format::Checkpoint;
  // The dtype of floating-point parameters and buffers; states keep theirs. None: as they are, but that halves become
  // fp32 in a checkpoint, whose shards have them so.
  std::optional<torch::ScalarType> dtype = {};
  bool model_only = false;                   // without states, step and notes
  std::vector<std::string> transposed = {};  // patterns of names: matrices that lie the other way round in the target
  Existing existing = Existing::Refuse;
  HuggingFaceFolder folder = {};  // of HuggingFace alone
};

struct Converted {
  size_t tensors = 0;
  int64_t bytes = 0;                 // of the tensors that were written
  std::vector<std::string> remarks;  // sentences: what was left out or changed
};

// Writes `target` from `source`, whole or not at all; holds the largest tensor two or three times, and for an archive
// all of them. Throws Error: what is wrong with the source, the target, or both together.
Converted convert(Source& source, const std::filesystem::path& target, const Conversion& conversion);

}  // namespace fsdp::formats
