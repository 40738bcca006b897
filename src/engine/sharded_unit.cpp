#include "engine/sharded_unit.h"

#include <algorithm>
#include <utility>

#include "deferred/real_tensors.h"
#include "interpose/piece_gradient.h"
#include "interpose/piece_storage.h"
#include "memory/mapped_tensor.h"

namespace fsdp::engine {

namespace {

layout::UnitLayout layout_of(const UnitSpec& unit, const ModelSpec& model) {
  std::vector<int64_t> numels;
  for (const auto& [name, tensor] : unit.tensors.parameters) numels.push_back(tensor.numel());
  return {numels, model.group->size(), model.shards};
}

std::vector<Shape> shapes_of(const UnitSpec& unit) {
  std::vector<Shape> shapes;
  for (const auto& [name, tensor] : unit.tensors.parameters) shapes.push_back(shape_of(tensor));
  return shapes;
}

torch::TensorOptions on_device(const ModelSpec& model, torch::ScalarType dtype) {
  return torch::dtype(dtype).device(model.device);
}

// Rank 0's values where those are sent, otherwise this rank's: the whole unit in fp32. Zeros where values come later.
torch::Tensor first_values(const UnitSpec& unit, const ModelSpec& model, const ShardedUnit& sharded) {
  torch::Tensor full = deferred::zeros_for_values(sharded.layout.full_numel(), model.device);
  for (size_t i = 0; i < sharded.shapes.size(); ++i) {
    const torch::Tensor& parameter = unit.tensors.parameters[i].second;
    if (model.initialise || !is_deferred(parameter)) deferred::write_value(parameter, sharded.view(full, i));
  }
  if (model.sync_module_states) model.group->broadcast_(full, 0);
  return full;
}

torch::Tensor make_shard(const UnitSpec& unit, const ModelSpec& model, const ShardedUnit& sharded) {
  torch::Tensor shard = sharded.collectives->shard();
  if (shard.scalar_type() != torch::kFloat32)
    shard = model.shard_backing->zeros(sharded.layout.shard_numel(), on_device(model, torch::kFloat32));
  const auto has_no_value = [](const auto& parameter) { return is_deferred(parameter.second); };
  if (!model.initialise && std::ranges::all_of(unit.tensors.parameters, has_no_value)) return shard.zero_();
  const layout::Range own = sharded.layout.shard_of(model.group->rank());
  return shard.copy_(first_values(unit, model, sharded).slice(0, own.begin, own.end));
}

std::vector<torch::Tensor> pieces_of(const ShardedUnit& sharded, int rank,
                                     const std::shared_ptr<interpose::Link>& link) {
  interpose::Unwatched ours;
  const torch::Tensor watched = interpose::watched(sharded.shard, interpose::PieceStorage::Holds::Parameters, link);
  std::vector<torch::Tensor> pieces;
  for (size_t i = 0; i < sharded.shapes.size(); ++i) {
    const layout::Range piece = sharded.layout.piece_of(i, rank);
    pieces.push_back(watched.slice(0, piece.begin, piece.end));
    interpose::announce_gradient_reads(pieces.back(), link);
  }
  return pieces;
}

// Replicas of a shard may read each other's sums.
buffers::Allocate allocate_sums(const layout::UnitLayout& layout, const ModelSpec& model) {
  if (layout.shards() == layout.ranks()) {
    return [backing = model.sum_backing, options = on_device(model, torch::kUInt8)](int64_t bytes) {
      return backing->zeros(bytes, options);
    };
  }
  return [group = model.group.get(), backing = model.sum_backing](int64_t bytes) {
    return group->allocate_sum(bytes, *backing);
  };
}

}  // namespace

ShardedUnit::ShardedUnit(int id, const UnitSpec& unit, const ModelSpec& model,
                         const std::shared_ptr<interpose::Link>& link, std::vector<ShardedParameter>& all)
    : name(unit.tensors.name),
      layout(layout_of(unit, model)),
      shapes(shapes_of(unit)),
      first_piece(all.size()),
      collectives(model.group->open_unit(
          {.id = id,
           .name = name,
           .layout = layout,
           .dtype = unit.dtype,
           .gradient_dtype = model.reduce_dtype,
           .may_be_kept = model.full_until != schedule::FullUntil::BufferNeeded || model.full_on_each_host,
           .backing = model.shard_backing})),
      shard(make_shard(unit, model, *this)),
      gradients(shapes, on_device(model, model.reduce_dtype)),
      sum(layout, model.group->rank(), pieces_of(*this, model.group->rank(), link), link, allocate_sums(layout, model)),
      storage_(c10::make_intrusive<interpose::UnitStorage>(id, name, layout.full_numel() * c10::elementSize(unit.dtype),
                                                           unit.dtype, model.casts_activations, link, model.device)),
      device_(model.device) {
  publish();
  interpose::Unwatched ours;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto& [parameter, tensor] = unit.tensors.parameters[i];
    parameters.emplace_back(tensor, parameter, storage_, layout.offset_of(i), shapes[i].strides, static_cast<int>(i));
    all.push_back({parameter, shapes[i].sizes, sum.pieces()[i], layout.piece_offset_of(i, model.group->rank())});
  }
  sum.lay_out(trainable());
}

torch::Tensor ShardedUnit::full() const {
  return torch::from_blob(storage_->_mutable_data_ptr_no_checks().get(), {layout.full_numel()},
                          torch::dtype(dtype()).device(device_));
}

void ShardedUnit::publish() {
  torch::Tensor published = collectives->shard();
  if (!published.is_alias_of(shard)) published.copy_(shard);
  collectives->publish();
  put_away();
}

void ShardedUnit::add_state(const torch::Tensor& state) {
  std::erase_if(states_, [](const auto& one) { return one.expired(); });
  if (const auto pages = memory::pages_of(state)) states_.push_back(pages);
}

std::vector<std::shared_ptr<const memory::FilePages>> ShardedUnit::pages() const {
  std::vector<std::shared_ptr<const memory::FilePages>> all{memory::pages_of(shard), memory::pages_of(sum.values())};
  const torch::Tensor published = collectives->shard();
  if (!published.is_alias_of(shard)) all.push_back(memory::pages_of(published));
  for (const auto& state : states_) all.push_back(state.lock());
  std::erase(all, nullptr);
  return all;
}

void ShardedUnit::read_ahead() const {
  for (const auto& one : pages()) one->read_ahead();
}

void ShardedUnit::put_away() const {
  for (const auto& one : pages()) one->put_away();
}

int64_t ShardedUnit::offloaded_bytes() const {
  int64_t bytes = 0;
  for (const auto& one : pages()) bytes += static_cast<int64_t>(one->bytes());
  return bytes;
}

bool ShardedUnit::sum_lies_in_file() const { return memory::pages_of(sum.values()) != nullptr; }

torch::Tensor ShardedUnit::view(const torch::Tensor& full, size_t index) const {
  return full.as_strided(shapes[index].sizes, shapes[index].strides, full.storage_offset() + layout.offset_of(index));
}

std::vector<uint8_t> ShardedUnit::trainable() const {
  std::vector<uint8_t> wanted;
  for (const auto& parameter : parameters) wanted.push_back(parameter.tensor().requires_grad());
  return wanted;
}

int64_t ShardedUnit::shard_bytes() const {
  const torch::Tensor published = collectives->shard();
  return static_cast<int64_t>(shard.nbytes() + (published.is_alias_of(shard) ? 0 : published.nbytes()));
}

}  // namespace fsdp::engine
