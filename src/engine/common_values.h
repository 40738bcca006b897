// Compares values that several ranks hold in common, bit for bit: a flipped bit of one rank's memory, or a program that
// writes other values on some ranks, would otherwise train on unseen.
//
// With replicas (NoShard, hybrid strategies) ranks at the same place of each copy of the model hold equal shards. All
// ranks hold equal buffers, as long as no rank has written them. The model's lock covers all calls.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/group.h"
#include "engine/module_buffers.h"
#include "engine/sharded_unit.h"

namespace fsdp::engine {

class CommonValues {
 public:
  // Every `every` steps; 0: never. `shards` ranks hold one copy of the model. Buffers are compared if rank 0 has sent
  // its own to all.
  CommonValues(int every, int shards, bool buffers_were_sent)
      : every_(every), shards_(shards), buffers_were_sent_(buffers_were_sent) {}

  // Counts a step. True if it is to be checked.
  bool is_due() { return every_ > 0 && ++steps_ % every_ == 0; }
  // Every rank's hashes of its values. A collective.
  std::vector<torch::Tensor> exchange(const Units& units, const ModuleBuffers& buffers,
                                      collectives::Group& group) const;
  // Throws Error, on every rank, that names the first parameter or buffer which is not equal.
  void check(const std::vector<torch::Tensor>& hashes, const Units& units, const ModuleBuffers& buffers) const;

 private:
  // The ranks that hold common values with others, in groups: each group in the order of ranks.
  std::vector<std::vector<int>> holders(bool of_shards, int ranks) const;
  void check_one(const std::string& what, int64_t column, bool of_shards,
                 const std::vector<torch::Tensor>& hashes) const;

  int every_, shards_;
  bool buffers_were_sent_;
  int64_t steps_ = 0;
};

}  // namespace fsdp::engine
