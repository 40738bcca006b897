// The buffers of a sharded module: each rank's own tensors, which the ranks may want alike.
//
// If a forward writes a buffer from its batch and reads it again, as a codebook that follows its inputs, each rank
// silently computes with other values. The first backwards look for such buffers, and the first finding is told once,
// by rank 0. With `broadcast_each_forward`, rank 0's values go to all before each training forward instead.
//
// The step driver calls `forward_begins` before anything else of a training forward is communicated, once until a
// backward has ended or, with names, once per micro-batch, and then `backward_ends`. `together`: every rank comes to
// the same call. That is not so in a no_sync scope, nor in a step in which a rank without a batch runs no forward; then
// nothing is communicated. Statistics that training only writes are not looked at. Not for concurrent use.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "collectives/group.h"
#include "fsdp/sharded_model.h"

namespace fsdp::engine {

// Copies values into a tensor of the same shape. In an expanded buffer, elements that share memory get the first value.
void copy_values(torch::Tensor buffer, torch::Tensor values);

class ModuleBuffers {
 public:
  // The group outlives it. `statistics` are names of buffers that a training forward does not read.
  ModuleBuffers(collectives::Group& group, NamedTensors buffers, std::unordered_set<std::string> statistics,
                bool broadcast_each_forward);

  const NamedTensors& named() const { return buffers_; }
  // True if this rank has written the buffer since all had equal ones, or if it holds statistics of training.
  bool is_written(size_t buffer) const;
  // Rank `source`'s values to all. A collective.
  void broadcast(int source);

  // A collective where buffers are broadcast.
  void forward_begins(bool together);
  // A collective while it looks.
  void backward_ends(bool together);
  // Names of the buffers that were found to be written and to differ; empty until then.
  const std::vector<std::string>& differing() const { return differing_; }

 private:
  bool looks() const;
  void note_versions();
  std::vector<std::string> compare();

  collectives::Group& group_;
  NamedTensors buffers_;
  std::unordered_set<std::string> statistics_;
  bool broadcast_each_forward_;
  int backwards_ = 0;
  std::vector<int64_t> versions_;  // autograd's, of each buffer, when they were last known to be alike
  std::vector<std::string> differing_;
};

}  // namespace fsdp::engine
