// Memory that a run will hold on each rank, by the formulas of docs/memory.md: pure arithmetic, before anything is
// built.
#pragma once

#include <cstdint>
#include <vector>

#include "options/options.h"
#include "planning/model_parts.h"

namespace trainer {

// The bytes of one AdamW moment of a piece.
struct PlannedMoment {
  int64_t per_element = 4;
  int64_t per_block = 0;  // of 64 elements
  int64_t bytes(int64_t numel) const { return per_element * numel + per_block * ((numel + 63) / 64); }
};

// How the model is divided. The ranks of a host share memory.
struct PlannedSharding {
  int64_t ranks = 1;
  int64_t hosts = 1;               // of equally many ranks each, numbered one host's after another's
  int64_t group = 1;               // ranks that hold the model once; divides `ranks`
  bool full_for_the_step = false;  // every unit has gradients of its own until the end of backward
  bool sums_in_place = false;      // sums of gradients take the place of the gradients
  bool one_micro_batch = false;    // in each step
  int64_t param_bytes = 4;         // an element of full parameters
  int64_t reduce_bytes = 4;        // an element of gradients between ranks
  int64_t buffers = 2;             // full units at once where gathers copy or fetch, for strategies that share them
  bool shares_buffers = true;
  bool on_gpus = false;         // gathers fill buffers of each rank, and gradients are added up in place
  bool shards_on_host = false;  // for ranks on GPUs
  bool muon = false;            // its matrices have one tensor of state in fp32, all else two moments
  PlannedMoment moment = {};
  bool offloads_state = false;   // of the optimizer, to files
  bool offloads_shards = false;  // and the sums of their gradients
  bool copies_for_saves = false;
  bool first_unit_stays_open = true;  // it is used at both ends of the model, while others come and go
};

// The ranks hold the model, or the same stage and parts of it, and lie on so many hosts.
PlannedSharding planned_sharding(const RunOptions& options, int64_t hosts = 1, bool on_gpus = false);

// In bytes; but for `copies`, `save_copy`, `late`, `on_host` and `resident`, the parts of fsdp::MemoryReport at the end
// of a backward, in the same order.
struct MemoryPlan {
  int64_t parameters = 0;       // shards in fp32, and in the dtype that is gathered
  int64_t gradients = 0;        // sums of the shards' gradients
  int64_t optimizer = 0;        // its state
  int64_t full_parameters = 0;  // that come from other hosts: gathers on a host copy nothing
  int64_t full_gradients = 0;   // of units whose gradients are being completed or reduced
  int64_t offloaded = 0;        // of all these, in files
  int64_t resident = 0;         // of that, in memory at once, at most
  int64_t on_host = 0;          // of all these, the bytes in the host's memory instead of the GPUs'
  int64_t late = 0;             // of all these, what is there only as activations go
  int64_t copies = 0;           // in addition, where the ranks find that gathers by copies are faster
  int64_t save_copy = 0;        // in addition, of the state for saves beside the steps
  int64_t total() const {
    return parameters + gradients + optimizer + full_parameters + full_gradients - offloaded + resident - on_host;
  }
};

// By rank, of the first host. Units have at least one element. On several hosts a group is of whole hosts, or a part of
// one; gradients on their way are told within the padding of a slice there.
std::vector<MemoryPlan> plan_memory(const std::vector<PlannedUnit>& units, const PlannedSharding& sharding);

}  // namespace trainer
