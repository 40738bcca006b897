#include "engine/model.h"

#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "base/error.h"
#include "engine/strategy_name.h"

namespace fsdp::engine {

namespace {

// Equal names, shapes, strides and dtypes give equal numbers on every rank (FNV-1a).
int64_t hash_of(const UnitSpec& spec) {
  const NamedUnit& unit = spec.tensors;
  uint64_t hash = 14695981039346656037ull;
  auto add = [&](std::string_view text) {
    for (unsigned char byte : text) hash = (hash ^ byte) * 1099511628211ull;
  };
  add(fmt::format("{} {}", unit.name, toString(spec.dtype)));
  for (const auto& [name, tensor] : unit.parameters) {
    add(fmt::format("|{} {} {} {}", name, fmt::join(tensor.sizes(), ","), fmt::join(tensor.strides(), ","),
                    tensor.requires_grad()));
  }
  for (const auto& [name, tensor] : unit.buffers) {
    add(fmt::format("|{} {} {}", name, fmt::join(tensor.sizes(), ","), toString(tensor.scalar_type())));
  }
  return static_cast<int64_t>(hash);
}

constexpr int kSharedGradientBuffers = 4;  // of the largest unit's size; no_sync may need more

Shape shape_of(const torch::Tensor& tensor) {
  // Strides that leave holes or overlap cannot be kept in flat memory.
  const bool dense = tensor.is_non_overlapping_and_dense();
  const torch::Tensor kept = dense ? tensor : torch::empty(tensor.sizes(), torch::device(torch::kMeta));
  return {tensor.sizes().vec(), kept.strides().vec()};
}

struct ComparedOption {
  const char* name;
  int value;
  std::string (*shown)(int value);
};

void check_same_options(const ModelSpec& spec, collectives::Group& group) {
  const auto number = [](int value) { return std::to_string(value); };
  const auto strategy = [](int value) { return std::string(name_of(Strategy(value))); };
  const auto dtype = [](int value) { return std::string(toString(torch::ScalarType(value))); };
  const auto boolean = [](int value) { return std::string(value ? "true" : "false"); };
  const std::vector<ComparedOption> options{{"strategy", int(spec.strategy), strategy},
                                            {"shard_group_size", spec.shards, number},
                                            {"buffers", spec.buffers, number},
                                            {"prefetch", spec.prefetch, number},
                                            {"mixed_precision.reduce_dtype", int(spec.reduce_dtype), dtype},
                                            {"sync_module_states", int(spec.sync_module_states), boolean}};
  torch::Tensor own = torch::empty({static_cast<int64_t>(options.size())}, torch::kInt32);
  for (size_t i = 0; i < options.size(); ++i) own.mutable_data_ptr<int>()[i] = options[i].value;
  const auto all = group.all_gather(own);
  for (int rank = 0; rank < group.size(); ++rank) {
    for (size_t i = 0; i < options.size(); ++i) {
      const int theirs = all[rank].const_data_ptr<int>()[i], first = all[0].const_data_ptr<int>()[i];
      FSDP_CHECK(theirs == first, "shard: the option {} is {} on rank {} and {} on rank 0. Use the same on every rank.",
                 options[i].name, options[i].shown(theirs), rank, options[i].shown(first));
    }
  }
}

void check_same_units(const std::vector<UnitSpec>& units, collectives::Group& group) {
  std::vector<int64_t> hashes;
  for (const UnitSpec& unit : units) hashes.push_back(hash_of(unit));
  const auto counts = group.all_gather(torch::tensor(static_cast<int64_t>(hashes.size())));
  for (int rank = 0; rank < group.size(); ++rank) {
    const int64_t count = counts[rank].item<int64_t>();
    FSDP_CHECK(count == counts[0].item<int64_t>(),
               "shard: rank {} has a model of {} units, rank 0 one of {}. Build the same model on every rank.", rank,
               count, counts[0].item<int64_t>());
  }
  const auto all = group.all_gather(torch::tensor(hashes));
  for (int rank = 0; rank < group.size(); ++rank) {
    for (size_t i = 0; i < hashes.size(); ++i) {
      FSDP_CHECK_UNIT(
          all[rank][i].item<int64_t>() == all[0][i].item<int64_t>(), units[i].tensors.name,
          "shard: the names, shapes or dtypes of the parameters or buffers on rank {}, or which of them are "
          "frozen, differ from those on rank 0. "
          "Build the same model on every rank.",
          rank);
    }
  }
}

}  // namespace

Model::Model(ModelSpec spec)
    : group_(std::move(spec.group)),
      device_(spec.device),
      strategy_(spec.strategy),
      shards_(spec.shards),
      reduce_dtype_(spec.reduce_dtype),
      recorder_(spec.units.size()),
      divisor_(group_->size()),
      step_(spec.units.size()) {
  torch::NoGradGuard no_grad;
  check_same_options(spec, *group_);
  check_same_units(spec.units, *group_);
  for (const UnitSpec& unit : spec.units) {
    add_unit(unit, spec);
    buffers_.insert(buffers_.end(), unit.tensors.buffers.begin(), unit.tensors.buffers.end());
  }
  if (spec.sync_module_states) broadcast_buffers(0);
  plan(spec);
  group_->barrier();
  link_->listener = this;
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

Model::~Model() {
  link_->listener = nullptr;
  for (auto& unit : units_) unit->storage->unbind();
}

// Moves one unit's parameters out of the module: one unit's worth of memory at a time.
void Model::add_unit(const UnitSpec& unit_spec, const ModelSpec& spec) {
  const NamedUnit& named = unit_spec.tensors;
  std::vector<int64_t> numels;
  for (const auto& parameter : named.parameters) numels.push_back(parameter.second.numel());
  auto unit = std::make_unique<Unit>(named.name, layout::UnitLayout(numels, group_->size(), shards_));
  const int id = static_cast<int>(units_.size());
  unit->collectives = group_->open_unit({.id = id,
                                         .name = named.name,
                                         .layout = unit->layout,
                                         .dtype = unit_spec.dtype,
                                         .gradient_dtype = reduce_dtype_});
  for (const auto& parameter : named.parameters) unit->shapes.push_back(shape_of(parameter.second));

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

void Model::publish(Unit& unit) {
  torch::Tensor published = unit.collectives->shard();
  if (!published.is_alias_of(unit.shard)) published.copy_(unit.shard);
  unit.collectives->publish();
}

schedule::Mode Model::note_mode() {
  using schedule::Mode;
  const auto note = backward_.note();
  if (note.abandoned) guarded([&] { abandon_backward(); });
  if (note.inside) return Mode::Backward;
  return torch::GradMode::is_enabled() ? Mode::Forward : Mode::ForwardWithoutGradients;
}

void Model::operator_begins(std::span<const int> units, std::optional<int> written, const char* operation) {
  std::lock_guard lock(mutex_);
  if (full_) return use_full(units, written, operation);
  if (written_) publish_all();
  const schedule::Mode mode = note_mode();
  const int64_t touched = recorder_.touched();
  FSDP_CHECK_UNIT(!written, units_[*written]->name,
                  "{} writes a sharded parameter, and the write would be lost. Write inside "
                  "sharded.full_parameters(), or let an optimizer over the shards do it.",
                  operation);
  if (link_->changed) check_changed(units[0], mode);
  if (step_.open()) check_not_stepped(units, operation);
  const schedule::Actions actions = schedule_->operator_begins(units, mode);
  try {
    if (!actions.empty()) guarded([&] { perform(actions); });
    if (!failure_.empty()) throw Error(failure_);
    if (!step_.candidates().empty()) step_early(touched);
  } catch (...) {
    schedule_->operator_ends(units);
    throw;
  }
  for (int unit : units) units_[unit]->storage->allow_access();
  const bool backward = mode == schedule::Mode::Backward;
  recorder_.computes(backward ? Activity::Backward : Activity::Forward, units[0], touched);
}

void Model::operator_ends(std::span<const int> units) noexcept {
  std::lock_guard lock(mutex_);
  if (full_) return;
  schedule_->operator_ends(units);
  for (int unit : units) {
    if (!schedule_->pinned(unit)) units_[unit]->storage->forbid_access();
  }
}

// A view that was made before, and is used after, the versions of the parameters go up would pass for one that a write
// has put out of date, and autograd would make its graph anew, in another order.
void Model::parameter_viewed(int unit) {
  std::lock_guard lock(mutex_);
  if (full_) return;
  if (written_) publish_all();
  if (link_->changed) check_changed(unit, note_mode());
}

// `unit` is the first to be used or viewed since the shards were written.
void Model::check_changed(int unit, schedule::Mode mode) {
  FSDP_CHECK_UNIT(mode != schedule::Mode::Backward, units_[unit]->name,
                  "the parameters changed (optimizer step, load or full_parameters) between this backward and its "
                  "forward. Call backward before the step, or run the forward again.");
  // Now, and not when they changed, so that the check above speaks before autograd's own.
  for (auto& each : units_) {
    for (auto& parameter : each->parameters) parameter.mark_changed();
  }
  link_->changed = false;
}

void Model::abandon_backward() {
  perform(schedule_->backward_abandoned());
  group_->reductions_end(/*everywhere=*/false);
  for (auto& unit : units_) unit->late.clear();
  step_.forget_candidates();
  FSDP_CHECK(
      !step_.foreseen() || !step_.left_any(),
      "a backward in step_in_backward() threw after some units had been stepped: the parameters are neither those "
      "of the step before nor those of this one. Load a checkpoint.");
}

void Model::perform(const schedule::Actions& actions) {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  for (const schedule::Action& action : actions) perform(action);
}

void Model::perform(const schedule::Action& action) {
  using Kind = schedule::Action::Kind;
  Unit& unit = *units_[action.unit];
  switch (action.kind) {
    case Kind::Release:
      unit.collectives->release();
      unit.storage->unbind();
      if (unit.collectives->gathers_into_buffer()) arena_->full.release(action.buffer);
      return;
    case Kind::Gather:
      return gather(action);
    case Kind::WaitGather:
      return unit.storage->bind(wait_gather(action.unit));
    case Kind::OpenGradient:
      return open_gradient(action);
    case Kind::Reduce:
      return reduce(action);
    case Kind::WaitReduce:
      return wait_reduction(action);
    case Kind::WaitBuffer: {
      const auto begun = [&] { return unit.collectives->wait_begun(); };
      return recorder_.waits(Activity::WaitReduce, action.unit, begun) ? wait_reduction(action) : set_aside(action);
    }
  }
}

void Model::gather(const schedule::Action& action) {
  Unit& unit = *units_[action.unit];
  if (unit.layout.shards() > 1) {
    ++communication_.gathers;
    communication_.foreseen_gathers += action.foreseen;
    recorder_.begins(Activity::Gather, action.unit);
  }
  // What is gathered in place takes no part of the peers.
  if (!unit.collectives->gathers_into_buffer()) return unit.collectives->begin_gather({});
  // While there is no plan to rely on, ranks tell each other what they gather: one that went another way is found at
  // once.
  if (!action.foreseen && !unit.collectives->gathers_alone()) exchange(action.unit, begun());
  unit.collectives->begin_gather(arena_->full.at(action.buffer, unit.layout.full_numel(), unit.dtype()));
}

void* Model::wait_gather(int unit) {
  const auto wait = [&] { return units_[unit]->collectives->wait_gather(); };
  if (units_[unit]->layout.shards() == 1) return wait();
  void* bytes = recorder_.waits(Activity::WaitGather, unit, wait);
  recorder_.ends(Activity::Gather, unit);
  return bytes;
}

void Model::wait_reduction(const schedule::Action& action) {
  const auto wait = [&] { finish_reduction(*units_[action.unit], action.buffer); };
  alone() ? wait() : recorder_.waits(Activity::WaitReduce, action.unit, wait);
  recorder_.ends(Activity::Reduce, action.unit);
  const bool final = schedule_->complete(action.unit) && units_[action.unit]->collectives->sum_is_complete();
  if (step_.foreseen() && final) step_.reduced(action.unit);
}

void Model::backward_ends(int task) {
  std::lock_guard lock(mutex_);
  if (!backward_.close(task)) return;
  recorder_.computes_nothing();
  torch::NoGradGuard no_grad;
  guarded([&] { end_backward(agree_on_account()); });
}

void Model::reduce_rest(const std::vector<int64_t>& account) {
  for (schedule::Actions next; !(next = schedule_->reduce_next(account)).empty();) perform(next);
}

void Model::end_backward(const std::vector<int64_t>& account) {
  check_reduced_once(account);
  // A unit of which a peer has another gradient is reduced once more: it, and what may wait for it, is left to step().
  const std::vector<int64_t> begun = schedule_->begun();
  const auto has_more = [&](int unit) { return account[unit] > begun[unit]; };
  if (std::ranges::any_of(step_.candidates(), has_more)) step_.forget_candidates();
  // The peers have come to the end, too, and so have left what they were to leave.
  if (!step_.candidates().empty()) step_early(recorder_.touched());
  reduce_rest(account);
  perform(schedule_->backward_ends(account));
  wait_sums();
  group_->reductions_end(/*everywhere=*/true);
  unreduced_ = no_sync_ > 0;
  followed_ = follows_ = false;
  schedule_->set_followed(false);
  // One in which no gradient came was of something else, as a gradient penalty's is.
  const auto came = std::span(account).last(units_.size());
  if (std::any_of(came.begin(), came.end(), [](int64_t gradients) { return gradients > 0; })) step_.backward_ends();
}

void Model::release_all() {
  note_mode();
  if (written_) publish_all();
  guarded([&] { perform(schedule_->shards_change()); });
}

void Model::begin_write() {
  check_settled("a write to the shards");
  std::lock_guard lock(mutex_);
  release_all();
  recorder_.computes_nothing();
  const auto wait = [&] {
    guarded([&] {
      for (auto& unit : units_) unit->collectives->begin_write();
    });
  };
  recorder_.waits(Activity::WaitReaders, kNoUnit, wait);
  recorder_.computes(Activity::Update);
}

void Model::publish() {
  std::lock_guard lock(mutex_);
  publish_all();
}

void Model::publish_written() {
  std::lock_guard lock(mutex_);
  if (written_) publish_all();
}

void Model::publish_all() {
  torch::NoGradGuard no_grad;
  written_ = false;
  recorder_.computes(Activity::Publish);
  guarded([&] {
    for (auto& unit : units_) publish(*unit);
  });
  recorder_.computes_nothing();
  link_->changed = true;
}

void Model::check_parameters(std::string_view what) const {
  std::lock_guard lock(mutex_);
  for (const auto& unit : units_) {
    for (const auto& parameter : unit->parameters) parameter.check_attached(what);
  }
}

}  // namespace fsdp::engine
