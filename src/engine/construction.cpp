// How a model is made: its parameters move out of the module into shards, and its memory is allocated.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/model.h"
#include "engine/same_model.h"

namespace fsdp::engine {

namespace {

constexpr int kSharedGradientBuffers = 4;  // of the largest unit's size; no_sync may need more

}  // namespace

Model::Model(ModelSpec spec)
    : group_(std::move(spec.group)),
      device_(spec.device),
      strategy_(spec.strategy),
      shards_(spec.shards),
      reduce_dtype_(spec.reduce_dtype),
      recorder_(spec.units.size()),
      piece_gradients_(parameters_, link_, group_->rank(), group_->size(), device_),
      step_(spec.units.size()) {
  torch::NoGradGuard no_grad;
  check_same_model(spec, *group_);
  for (const UnitSpec& unit : spec.units) {
    add_unit(unit, spec);
    buffers_.insert(buffers_.end(), unit.tensors.buffers.begin(), unit.tensors.buffers.end());
  }
  if (spec.sync_module_states) broadcast_buffers(0);
  plan(spec);
  group_->barrier();
  link_->listener = this;
}

Model::~Model() {
  link_->listener = nullptr;
  for (auto& unit : units_) unit->storage->unbind();
}

// Moves one unit's parameters out of the module: one unit's worth of memory at a time.
void Model::add_unit(const UnitSpec& unit_spec, const ModelSpec& spec) {
  const NamedUnit& named = unit_spec.tensors;
  std::vector<int64_t> numels;
  std::vector<Shape> shapes;
  for (const auto& [name, tensor] : named.parameters) {
    numels.push_back(tensor.numel());
    shapes.push_back(shape_of(tensor));
  }
  auto unit = std::make_unique<Unit>(named.name, layout::UnitLayout(numels, group_->size(), shards_), std::move(shapes),
                                     on_device(reduce_dtype_));
  const int id = static_cast<int>(units_.size());
  unit->collectives = group_->open_unit(
      {.id = id,
       .name = named.name,
       .layout = unit->layout,
       .dtype = unit_spec.dtype,
       .gradient_dtype = reduce_dtype_,
       .may_be_kept = spec.full_until != schedule::FullUntil::BufferNeeded || spec.full_on_each_host});

  torch::Tensor full = torch::zeros({unit->layout.full_numel()}, on_device(torch::kFloat32));
  for (size_t i = 0; i < numels.size(); ++i) unit->view(full, i).copy_(named.parameters[i].second.detach());
  if (spec.sync_module_states) group_->broadcast_(full, 0);
  const layout::Range own = unit->layout.shard_of(group_->rank());
  unit->shard = unit_spec.dtype == torch::kFloat32
                    ? unit->collectives->shard()
                    : torch::empty({unit->layout.shard_numel()}, on_device(torch::kFloat32));
  unit->shard.copy_(full.slice(0, own.begin, own.end));
  publish(*unit);

  unit->sum.held.assign(numels.size(), 0);
  unit->storage = c10::make_intrusive<interpose::UnitStorage>(
      id, named.name, unit->layout.full_numel() * c10::elementSize(unit_spec.dtype), unit_spec.dtype,
      spec.casts_activations, link_, device_);
  unit->first_piece = parameters_.size();
  interpose::Unwatched ours;
  const torch::Tensor pieces = interpose::watched(unit->shard, interpose::PieceStorage::Holds::Parameters, link_);
  for (size_t i = 0; i < numels.size(); ++i) {
    const auto& [name, tensor] = named.parameters[i];
    unit->parameters.emplace_back(tensor, name, unit->storage, unit->layout.offset_of(i), unit->shapes[i].strides,
                                  static_cast<int>(i));
    const layout::Range piece = unit->layout.piece_of(i, group_->rank());
    parameters_.push_back({name, unit->shapes[i].sizes, pieces.slice(0, piece.begin, piece.end),
                           unit->layout.piece_offset_of(i, group_->rank())});
  }
  units_.push_back(std::move(unit));
}

// Units that stay full until the shards change may be used by some ranks only, so nothing of theirs is shared.
void Model::plan(const ModelSpec& spec) {
  using schedule::FullUntil;
  const int units = static_cast<int>(units_.size());
  schedule::Limits limits{
      .units = units, .buffers = spec.buffers, .prefetch = spec.prefetch, .full_until = spec.full_until};
  if (spec.full_until == FullUntil::ShardsChange) limits.gradient_buffers = units;
  schedule_ = std::make_unique<schedule::Schedule>(limits);

  int64_t full = 0, gradients = 0, staging = 0;
  const auto gradient_bytes = static_cast<int64_t>(c10::elementSize(reduce_dtype_));
  for (auto& unit : units_) {
    unit->gradient_layout = {unit->layout, unit->trainable()};
    const auto bytes = static_cast<int64_t>(c10::elementSize(unit->dtype()));
    full = std::max(full, unit->layout.full_numel() * bytes);
    gradients = std::max(gradients, unit->gradient_layout.full_numel() * gradient_bytes);
    staging = std::max(staging, unit->collectives->staging_numel(unit->gradient_layout) * gradient_bytes);
  }
  const int shared = spec.full_until == FullUntil::BufferNeeded ? spec.buffers : 0;
  const int shared_gradients = spec.full_until == FullUntil::ShardsChange ? 0 : kSharedGradientBuffers;
  auto for_reductions = [this](int64_t bytes) { return group_->allocate(bytes); };
  const buffers::Allocate plain = buffers::allocate_plain(device_);
  arena_ = std::make_unique<buffers::Arena>(buffers::Arena{buffers::Pool(shared, full, plain),
                                                           buffers::Pool(shared_gradients, gradients, for_reductions),
                                                           buffers::Pool(shared_gradients, staging, plain)});
}

void Model::broadcast_buffers(int source) {
  FSDP_CHECK(source >= 0 && source < group_->size(), "broadcast_buffers: found source {}, expected a rank below {}",
             source, group_->size());
  torch::NoGradGuard no_grad;
  guarded([&] {
    for (auto [name, buffer] : buffers_) {
      torch::Tensor values = buffer.contiguous();
      group_->broadcast_(values, source);
      if (!values.is_same(buffer)) buffer.copy_(values);
    }
  });
}

}  // namespace fsdp::engine
