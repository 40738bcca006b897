// A model's parameters and buffers as Hugging Face files hold them.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint_ranks.h"
#include "checkpoint/manifest.h"
#include "fsdp/checkpoint.h"

namespace fsdp::checkpoint {

// One parameter or buffer of the model.
struct PretrainedTensor {
  std::string name;            // the model's
  std::string name_in_file;    // with the optional prefix
  std::vector<int64_t> shape;  // the model's
  torch::ScalarType type;      // of what the model keeps, which is written
  bool transposed = false;     // in the file
  bool absent = false;         // from the file
  bool is_buffer = false;
  bool may_be_cut = false;  // the file may have more rows
  std::vector<int64_t> shape_in_file() const;
};

// A model as all ranks of a mesh hold it.
struct PretrainedModel {
  Manifest whole;                         // every parameter and buffer, in the order of the model's blocks
  std::vector<PretrainedTensor> tensors;  // of the parameters, in their order, then of the buffers
};

// Throws Error for options that do not fit the model: two tensors with one name, a pattern that matches nothing or what
// is no matrix. A collective of `ranks`.
PretrainedModel pretrained_model(ShardedModel& model, const CheckpointRanks& ranks, const std::string& what,
                                 const PretrainedOptions& options);

}  // namespace fsdp::checkpoint
