// The collectives that a sharded model and a World need, among one group of ranks: one small interface, one file per
// backend.
//
// Every rank of the group makes the same calls in the same order, from one thread at a time; what is between a `begin`
// and its `wait` runs beside the caller. Every wait ends after the group's timeout with an Error that names the rank
// that did not answer. Sums are fp32 and in rank order, with equal bits on every backend but NCCL, which adds gradients
// in an order of its own (docs/determinism.md). Tensors are on the device of the group's units, or on the CPU. On a
// device that has streams, a wait makes the caller's current stream wait, and not the caller.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/exchange_terms.h"
#include "collectives/tensor_operations.h"
#include "collectives/world_calls.h"
#include "fsdp/error.h"
#include "layout/gradient_layout.h"
#include "layout/unit_layout.h"
#include "memory/backing.h"

namespace fsdp::collectives {

// Another rank did not answer, or is gone: what went wrong, went wrong there.
class PeerLost : public Error {
 public:
  using Error::Error;
};

// The sum over ranks and micro-batches of a shard's gradients.
struct GradientSum {
  torch::Tensor values;       // as long as the shard in the gradient layout, fp32; allocated by the group for a unit
                              // that has replicas
  std::vector<uint8_t> held;  // per parameter: whether `values` has a gradient of it
};

// One rank's gradients of a unit, and how they lie.
struct Gradients {
  const layout::GradientLayout* layout = nullptr;
  torch::Tensor values;          // [layout->full_numel()], of the unit's gradient_dtype, allocated by the group
  std::vector<uint8_t> present;  // per parameter: a Presence (presence.h)
  torch::Tensor staging;         // [staging_numel(*layout)] of that dtype: room for the peers' parts
};

// The capabilities of a backend's units.
struct Capabilities {
  bool into_buffer = true;  // a gather fills the caller's buffer; otherwise it hands out memory, and needs none
  bool one_sided = false;   // a gather needs nothing of the peers but that they have published
  bool any_order = false;   // ranks may begin gathers in different orders, if they say so (Order::Any)
  bool joins = false;       // `join_gather` and `gather_stalls` are supported
  // begin_reduce may use the gradient tensor itself as the sum: if it is fp32, the shard is the whole unit, and the sum
  // is empty.
  bool sums_in_place = false;
};

using fsdp::Begun;
using fsdp::Order;
using fsdp::Readers;

// The memory that a unit holds on this rank beside its shard and the caller's memory, in bytes.
struct UnitBytes {
  int64_t gathered = 0;    // for full parameters
  int64_t reductions = 0;  // for gradients
  int64_t in_files = 0;    // of these
};

// One unit's shard and its collectives.
//
// The opener owns it; it may outlive the group. One thread at a time, which is also the thread of the group's other
// units and of the group itself; the shard's memory may be read from any. Every call throws Error, PeerLost where the
// cause is a peer; after that every call to the group and its units throws the first error again.
//
// A write:     begin_write, change shard(), publish.          Until then nothing of the unit is full on this rank.
// A gather:    begin_gather, wait_gather, read, release.      At most one is under way.
// A reduction: begin_reduce, [wait_begun,] wait_reduce; and at the end of all that add to one sum, wait_sum.
class UnitCollectives {
 public:
  virtual ~UnitCollectives() = default;

  virtual Capabilities capabilities() const = 0;
  // The part of the flat parameters that this rank owns: [shard_numel], allocated here. Its dtype is the unit's, or
  // fp32 if gathers cast the shard. The caller writes it only between `begin_write` and `publish`. A new unit is in its
  // first write.
  virtual torch::Tensor shard() const = 0;
  virtual UnitBytes bytes() const = 0;
  // The elements, of the unit's gradient_dtype, that `begin_reduce` needs in Gradients::staging.
  virtual int64_t staging_numel(const layout::GradientLayout& layout) const = 0;

  // Returns when no rank reads this rank's shard any more; this rank reads the unit no more until `publish`. False,
  // only where the readers are merely asked, when a peer may still read: ask again, or wait in any order.
  virtual bool begin_write(Readers readers) = 0;
  // Declares the shard written: gathers begun from now on see it.
  virtual void publish() = 0;

  // Starts to make the unit full: what lies in files is read ahead. `buffer`, of [full_numel] elements of the unit's
  // dtype, is where to; undefined for a unit whose gathers need none.
  virtual void begin_gather(const torch::Tensor& buffer, Order order) = 0;
  // The address of the full unit's first element, valid until `release`.
  virtual void* wait_gather() = 0;
  virtual void release() = 0;
  // Takes part in a gather of peers, into `spare`. A full unit that this rank holds or gathers stays as it is.
  virtual void join_gather(const torch::Tensor& spare);
  // Waits until the gather under way is over. True if a peer does not take part before this rank goes on.
  virtual bool gather_stalls() { return false; }

  // Starts to add every rank's gradients of this rank's shard to `sum`, in fp32. The gradients stay untouched until
  // `wait_reduce`; the sum and the layout, which is the same on every rank, until `wait_sum`.
  virtual void begin_reduce(Gradients gradients, GradientSum& sum) = 0;
  // Waits until every rank has begun the reduction under way, or until one cannot before this rank goes on.
  virtual Begun wait_begun() = 0;
  // Ends the reduction under way.
  virtual void wait_reduce() = 0;
  // Completes the sum: until then it may lack what replicas of the shard add up, and they may read it.
  virtual void wait_sum() = 0;
  // True if `wait_sum` has nothing to wait for. False also where only a wait can tell.
  virtual bool sum_is_complete() = 0;
};

// The description of a unit that a group opens.
struct GroupUnitSpec {
  int id = 0;        // the same on every rank, unique in the group
  std::string name;  // for messages
  layout::UnitLayout layout;
  torch::ScalarType dtype = torch::kFloat32;           // of the full unit
  torch::ScalarType gradient_dtype = torch::kFloat32;  // of gradients on the wire: fp32, bf16 or fp16
  // True if the group may keep full parameters that it has gathered in memory of its own until the next write, which
  // saves the gathers in between. Otherwise it holds them only until `release`.
  bool may_be_kept = true;
  // Where the shard lies, and with it what ranks of a host keep together.
  std::shared_ptr<memory::Backing> backing = memory::plain_backing();
};

class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // How messages call a rank: its number in the job (base/rank_names.h).
  virtual int name_of(int rank) const { return rank; }

  virtual std::unique_ptr<UnitCollectives> open_unit(const GroupUnitSpec& spec) = 0;  // may be a collective
  // Memory that reductions of this group's units may be begun from, as [bytes] of uint8; given back with the tensor.
  virtual torch::Tensor allocate(int64_t bytes) { return torch::empty({bytes}, torch::kUInt8); }
  // Memory for the sums of units that have replicas. It comes from `backing` if no peer reads the sums.
  virtual torch::Tensor allocate_sum(int64_t bytes, memory::Backing& backing) {
    static_cast<void>(backing);
    return allocate(bytes);
  }
  // Bytes of the buffers for full units that this rank has allocated for itself and others.
  virtual int64_t buffer_bytes() const { return 0; }
  // At the end of a backward. True if this rank's reductions had the gradients and the order of the last backward.
  virtual bool reductions_as_before() { return true; }
  // A backward's reductions are over on all ranks; if not `everywhere`, they are given up on this one. `as_before`: on
  // all ranks. Returns the units whose sums hold gradients of other parameters than `wait_reduce` reported.
  virtual std::vector<int> reductions_end(bool everywhere, bool as_before = false) {
    static_cast<void>(everywhere), static_cast<void>(as_before);
    return {};
  }
  // `differ`: from now on ranks use different units, and begin reductions in different orders. The same on all ranks.
  virtual void ranks_differ(bool differ) { static_cast<void>(differ); }

  // This rank is in a call of a world until the next such note, and begins nothing in this group; null: it is in none.
  // If another thread uses this group, nothing happens.
  virtual void note_call(const WorldCall* call) { static_cast<void>(call); }

  // Operations of the whole group on tensors.
  virtual TensorOperations& tensors() = 0;
  void barrier() { tensors().barrier(); }
  void all_reduce_(torch::Tensor& tensor, ReduceOp op = ReduceOp::Sum) { tensors().all_reduce_(tensor, op); }
  void broadcast_(torch::Tensor& tensor, int source) { tensors().broadcast_(tensor, source); }
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor,
                                        const std::string& purpose = "enters an all_gather") {
    return tensors().all_gather(tensor, purpose);
  }
};

}  // namespace fsdp::collectives
