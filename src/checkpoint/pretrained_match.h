// Where Hugging Face files have each tensor of a model, and how they differ from the model.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/pretrained.h"
#include "checkpoint/pretrained_files.h"
#include "fsdp/checkpoint.h"

namespace fsdp::checkpoint {

// Where a parameter or buffer of the model is in the files: nowhere, whole, or its first rows alone.
struct PretrainedSource {
  SafetensorsFile* file = nullptr;
  const SafetensorsFile::Entry* entry = nullptr;
  bool is_whole = false;  // all elements of the parameter
  bool is_cut = false;    // and the file has more rows
};

struct PretrainedMatch {
  std::vector<PretrainedSource> sources;  // of each wanted tensor
  LoadDifferences differences;
  std::vector<std::string> problems;  // what the options do not allow
};

// Reads headers alone.
PretrainedMatch match(const PretrainedFiles& files, const std::vector<PretrainedTensor>& wanted,
                      const PretrainedOptions& options);

}  // namespace fsdp::checkpoint
