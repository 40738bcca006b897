#include "collectives/shm/unit.h"

#include <utility>

#include "base/error.h"
#include "collectives/element_type.h"
#include "collectives/shapes.h"
#include "collectives/shm/peer_copy.h"

namespace fsdp::collectives::shm {

namespace {

std::vector<int> replicas_of(int rank, const layout::UnitLayout& layout) {
  std::vector<int> replicas;
  for (int other = 0; other < layout.ranks(); ++other) {
    if (other != rank && layout.shard_index(other) == layout.shard_index(rank)) replicas.push_back(other);
  }
  return replicas;
}

UnitMemory open_memory(SharedMemoryContext& context, const GroupUnitSpec& spec) {
  check_ranks(context.ranks().size(), spec);
  return context.guarded(message_prefix(spec.name), "open", [&] { return UnitMemory(context, spec, {}); });
}

}  // namespace

SharedMemoryUnit::SharedMemoryUnit(std::shared_ptr<SharedMemoryContext> context, GroupUnitSpec spec, GatherBy gather_by)
    : context_(std::move(context)),
      spec_(std::move(spec)),
      gather_by_(gather_by),
      prefix_(message_prefix(spec_.name)),
      memory_(open_memory(*context_, spec_)),
      reduction_({context_->ranks(), memory_.members(), element_type_of(spec_.gradient_dtype), spec_.name},
                 replicas_of(context_->ranks().rank(), spec_.layout)) {}

bool SharedMemoryUnit::begin_write(Readers readers) {
  return context_->guarded(prefix_, "waiting for the readers of this rank's shard",
                           [&] { return memory_.begin_write(readers); });
}

void SharedMemoryUnit::begin_gather(const torch::Tensor& buffer, Order) {
  memory_.read_ahead();
  if (!copies()) return;
  check_buffer(buffer, spec_);
  buffer_ = buffer;
}

void* SharedMemoryUnit::wait_gather() {
  return context_->guarded(prefix_, "gather", [&] {
    if (!copies()) return memory_.wait_full();
    copy_shard(context_->ranks().rank());
    memory_.wait_published([this](int rank) { copy_shard(rank); });
    return buffer_.mutable_data_ptr();
  });
}

void SharedMemoryUnit::copy_shard(int rank) {
  const auto element = static_cast<int64_t>(c10::elementSize(spec_.dtype));
  const layout::Range shard = spec_.layout.shard_of(rank);
  copy_from_peer(static_cast<char*>(buffer_.mutable_data_ptr()) + shard.begin * element, memory_.place_of(rank),
                 shard.numel() * element);
}

void SharedMemoryUnit::release() {
  buffer_ = torch::Tensor();
  memory_.release();
}

void SharedMemoryUnit::begin_reduce(Gradients gradients, GradientSum& sum) {
  FSDP_INVARIANT(!reduction_.under_way(), "unit {} is being reduced already", spec_.name);
  check_shapes(gradients, sum, spec_);
  gradients_ = std::move(gradients);
  const bool has_replicas = spec_.layout.shards() < spec_.layout.ranks();
  if (has_replicas) sum_ = sum.values;
  context_->guarded(prefix_, "reduce", [&] {
    const uint64_t address = has_replicas ? context_->address_of(sum.values) : 0;
    reduction_.begin(*gradients_.layout, context_->address_of(gradients_.values), gradients_.present,
                     {sum.values.mutable_data_ptr<float>(), &sum.held, address});
  });
}

Begun SharedMemoryUnit::wait_begun() {
  const bool begun = context_->guarded(prefix_, "reduce", [&] { return reduction_.wait_begun(); });
  return begun ? Begun::Yes : Begun::PeerStalls;
}

void SharedMemoryUnit::wait_reduce() {
  context_->guarded(prefix_, "reduce", [&] { reduction_.wait(); });
  gradients_ = {};
}

void SharedMemoryUnit::wait_sum() {
  if (!sum_.defined()) return;
  context_->guarded(prefix_, "reduce", [&] { reduction_.wait_copied(); });
  sum_ = torch::Tensor();
}

bool SharedMemoryUnit::sum_is_complete() {
  if (sum_.defined() && reduction_.is_copied()) sum_ = torch::Tensor();
  return !sum_.defined();
}

}  // namespace fsdp::collectives::shm
