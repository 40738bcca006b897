// The memory and the traffic of a training run on each rank, known before it runs: pure arithmetic, without LibTorch.
//
//   using namespace fsdp::plan;
//   const std::vector<Unit> units(12, Unit{{.numel = 7'087'872}});
//   Sharding sharding = sharding_of("full-shard", /*ranks=*/8);
//   sharding.on_gpus = true;
//   const std::vector<StateMemory> ranks = state_memory(units, sharding);
//   const std::vector<Communication> traffic = communication(units, sharding, unit_uses(12, sharding));
//
// docs/memory.md has the formulas of memory. The layout of units over ranks is that of `shard` itself.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace fsdp::plan {

// A parameter of a model.
struct Parameter {
  int64_t numel = 0;             // elements
  bool is_layer_matrix = false;  // fsdp::Muon steps it; AdamW steps all others
  bool is_trained = true;        // has a gradient, and state of the optimizer

  // Compares all members.
  bool operator==(const Parameter&) const = default;
};

// A unit as `fsdp::shard` makes it: its parameters in their order.
using Unit = std::vector<Parameter>;
// Its elements. Throws Error for more than 64 bits can count.
int64_t numel_of(const Unit& unit);

// Bytes of one AdamW moment of a piece.
struct MomentBytes {
  int64_t per_element = 4;  // 4 in fp32, 2 in bf16, 1 in codes of 8 bits
  int64_t per_block = 0;    // of 64 elements: 4 for codes of 8 bits
  // The bytes of a piece of so many elements. Throws Error for more than 64 bits can count.
  int64_t of(int64_t numel) const;
};

// How a model is divided, and in which form it is held. The ranks of a host share memory.
struct Sharding {
  int64_t ranks = 1;                  // of the whole job, or of the data axis of a mesh
  int64_t hosts = 1;                  // of equally many ranks each, numbered one host's after another's
  int64_t group = 1;                  // ranks that hold the model once; divides `ranks`
  bool full_for_the_step = false;     // units stay full until the step changes them
  bool sums_in_place = false;         // sums take the place of the step's first gradients (NoShard in shared memory)
  bool one_micro_batch = false;       // in each step
  int64_t param_bytes = 4;            // an element of full parameters
  int64_t reduce_bytes = 4;           // an element of gradients between ranks
  int64_t buffers = 2;                // full units at once where gathers copy or fetch, for strategies that share them
  bool shares_buffers = true;         // units are full while they are used, and take turns in the buffers
  bool on_gpus = false;               // gathers fill buffers of each rank, and gradients are added up in place
  bool shards_on_host = false;        // for ranks on GPUs
  bool muon = false;                  // its matrices have one tensor of state in fp32, all others two moments
  MomentBytes moment = {};            // of AdamW
  bool offloads_state = false;        // of the optimizer, to files
  bool offloads_shards = false;       // and the sums of their gradients
  bool copies_for_saves = false;      // of the state, for save_checkpoint_async
  bool first_unit_stays_open = true;  // it is used at both ends of the model, while others come and go
  int64_t units_of_backward = 0;      // the most units that one backward uses; 0: all
};

// The division by a strategy, as fsdp-train's --strategy names it: "full-shard", "shard-grad-op", "shard-optimizer",
// "no-shard", "hybrid-shard" or "hybrid-shard-grad-op". `group`: as options.shard_group_size; 0: all ranks, or the
// ranks of a host for hybrid strategies. All other members are as in `Sharding{}`. Throws Error for another strategy,
// no ranks or more than 1,048,576, hosts that do not divide them, and a group that the strategy or the ranks do not
// allow.
Sharding sharding_of(std::string_view strategy, int64_t ranks, int64_t hosts = 1, int64_t group = 0);

// The state of a model on one rank, in bytes. Except `copies`, `save_copy`, `late`, `on_host` and `resident`, the
// members are those of fsdp::MemoryReport at the end of a backward, in the same order.
struct StateMemory {
  int64_t parameters = 0;       // shards in fp32, and in the dtype that is gathered
  int64_t gradients = 0;        // sums of the shards' gradients
  int64_t optimizer = 0;        // its state
  int64_t full_parameters = 0;  // that come from other hosts: gathers on a host copy nothing
  int64_t full_gradients = 0;   // of units whose gradients are being completed or reduced
  int64_t offloaded = 0;        // of all these, in files
  int64_t resident = 0;         // of that, in memory at once, at most
  int64_t on_host = 0;          // of all these, the bytes in the host's memory instead of the GPUs'
  int64_t late = 0;             // of all these, only there as activations go
  int64_t copies = 0;           // in addition, where the ranks find that gathers by copies are faster
  int64_t save_copy = 0;        // in addition, of the state for saves beside the steps
  // The bytes that are in the memory of a rank's device at the end of a backward, without `copies` and `save_copy`.
  int64_t total() const {
    return parameters + gradients + optimizer + full_parameters + full_gradients - offloaded + resident - on_host;
  }
};

// By rank, of the first host. On several hosts of CPUs, gradients on their way are told within the padding of a slice.
// Takes time for each rank of a job and each different unit.
//
// Throws Error for a sharding that no run can have: no ranks or more than 1,048,576, hosts or a group that do not
// divide them, no buffers, elements of impossible sizes. Also for no units, a negative size, and units whose bytes may
// not fit in 64 bits: 2^53 elements, if each were as large as the largest.
std::vector<StateMemory> state_memory(const std::vector<Unit>& units, const Sharding& sharding);

// How often a step gathers and reduces a unit.
struct UnitUses {
  int64_t gathers = 0;     // of its full parameters; not counted for groups of one rank
  int64_t reductions = 0;  // of its gradients; not counted where no parameter is trained

  // Compares both.
  bool operator==(const UnitUses&) const = default;
};

// Bytes that a rank receives per step: from ranks of its host, and from others.
struct Traffic {
  double within = 0;  // from ranks of the same host
  double across = 0;  // from ranks of other hosts

  double sum() const { return within + across; }  // all of them
};

// The communication of a rank in a step, without messages about shapes, counts, norms and losses.
struct Communication {
  Traffic gathers;               // of full parameters
  Traffic reductions;            // of gradients, and of their sums between replicas
  int64_t gathers_count = 0;     // of units
  int64_t reductions_count = 0;  // of units

  // All of it.
  Traffic sum() const { return {gathers.within + reductions.within, gathers.across + reductions.across}; }
};

// The uses of a model's units in a step of `micro_batches`. The first unit holds the embedding and the head: a forward
// uses it, all others in their order, and it again. A backward goes the other way, and does not read the embedding. The
// numbers are those of planned steps of the engine (docs/communication.md). Throws Error for no units or micro-batches,
// and a sharding as state_memory does.
std::vector<UnitUses> unit_uses(int64_t units, const Sharding& sharding, int64_t micro_batches = 1);

// By rank, of the first host; those of other hosts differ by padding. `uses` by unit, as unit_uses returns them.
//
// On the CPU, ranks of a host read each other's shards in place. Others' shards cross the network once for a host, and
// gradients as sums of a host, in fp32. On GPUs a gather is an all-gather. A reduction is a reduce-scatter over all
// ranks, and an all-gather of sums in fp32 between replicas. A ring in which ranks of a host are neighbours passes them
// on: with n ranks of a host a rank receives 1 / n of its bytes from another host, on average.
//
// The FSDP paper (Zhao et al., arXiv:2304.11277, section 3.2) counts the same for a model of M bytes on W ranks. With
// no-shard a rank receives 2M(W-1)/W bytes, and with full-shard, which gathers twice, 3M(W-1)/W. With hybrid-shard on
// hosts of G ranks, about 2M(W-1)/(GW) come from other hosts. Padding is additional.
//
// Takes time for each rank of a job and each different unit. Throws Error as state_memory does, and for uses of another
// number of units, or below 0.
std::vector<Communication> communication(const std::vector<Unit>& units, const Sharding& sharding,
                                         const std::vector<UnitUses>& uses);

}  // namespace fsdp::plan
