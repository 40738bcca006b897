// The description that `shard` makes a model from.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "collectives/group.h"
#include "engine/whole_model.h"
#include "fsdp/sharded_model.h"
#include "memory/backing.h"
#include "memory/byte_store.h"
#include "schedule/residency.h"

namespace fsdp::engine {

struct UnitSpec {
  NamedUnit tensors;
  torch::ScalarType dtype = torch::kFloat32;  // of its full parameters
};

struct ModelSpec {
  std::vector<UnitSpec> units;
  std::unique_ptr<collectives::Group> group;
  // A further group of the same ranks with connections of its own, for tensors on the CPU. A collective.
  std::function<std::unique_ptr<collectives::Group>()> new_host_group = nullptr;
  torch::Device device = torch::kCPU;       // of parameters, shards and gradients, and of the group's units
  Strategy strategy = Strategy::FullShard;  // by name; what it means follows
  int shards = 1;                           // ranks that share one copy of the state; divides the group's size
  schedule::FullUntil full_until = schedule::FullUntil::BufferNeeded;
  int buffers = 2;
  int prefetch = 1;
  bool full_on_each_host = false;
  std::shared_ptr<memory::Backing> shard_backing = memory::plain_backing();
  std::shared_ptr<memory::Backing> sum_backing = memory::plain_backing();    // of sums that no peer reads
  std::shared_ptr<memory::Backing> state_backing = memory::plain_backing();  // of optimizers' state
  Offload in_files = Offload::Nothing;                                       // of these
  std::shared_ptr<memory::ByteStore> activation_store = {};                  // none: activations stay in memory
  int64_t least_stored_bytes = 0;                                            // of activations
  torch::ScalarType reduce_dtype = torch::kFloat32;
  bool casts_activations = false;  // where the dtypes of parameters and activations differ
  bool sync_module_states = true;
  bool initialise = true;                           // deferred parameters, with their first values
  std::unordered_set<std::string> statistics = {};  // names of buffers that training does not read
  bool broadcast_buffers = false;                   // before each training forward
  int64_t activation_memory = 0;                    // bytes that activations may take; 0: any
  std::vector<std::string> recomputed_blocks = {};  // by name, that it decides about
  int check_common_every = 0;                       // steps; 0: never
  WholeModel whole = {};                            // of which this is a part
};

}  // namespace fsdp::engine
