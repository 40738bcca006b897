#include "optim/rule_on_pieces.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_foreach_add.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/names.h"
#include "interpose/piece_gradient.h"
#include "interpose/piece_storage.h"

namespace fsdp::optim {

namespace {

// Enters a rule's tensors under their name, which another rule may have for its own parameters.
void merge(std::vector<Optimizer::ElementState>& into, const std::string& name,
           const std::vector<torch::Tensor>& tensors) {
  auto same = std::find_if(into.begin(), into.end(), [&](const auto& state) { return state.name == name; });
  if (same == into.end()) same = into.insert(same, {name, std::vector<torch::Tensor>(tensors.size())});
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].defined()) same->tensors[i] = tensors[i];
  }
}

// Small enough that a block's gradients and optimizer state, and the fp32 that is made of one that is packed, stay in a
// core's cache from one operation to the next. On a GPU few calls matter more, and that fp32 is memory.
int64_t block_numel(const torch::Device& device, bool packed) {
  if (!device.is_cpu()) return packed ? int64_t{1} << 24 : std::numeric_limits<int64_t>::max();
  return (packed ? int64_t{1 << 15} : int64_t{1 << 17}) * at::get_num_threads();
}

void append(UpdateBatch& to, const UpdateBatch& from, const std::vector<KeptTensor>& kept, size_t i, int64_t begin,
            int64_t end) {
  to.parameters.push_back(from.parameters[i]);
  to.pieces.push_back(from.pieces[i].slice(0, begin, end));
  to.gradients.push_back(from.gradients[i].slice(0, begin, end));
  to.steps.push_back(from.steps[i]);
  for (size_t state = 0; state < to.states.size(); ++state) {
    to.states[state].push_back(
        from.states[state][i].slice(0, kept[state].numel_for(begin), kept[state].numel_for(end)));
  }
}

// The batch's elements, about so many in each.
std::vector<UpdateBatch> blocks_of(const UpdateBatch& batch, const std::vector<KeptTensor>& kept, bool packed) {
  constexpr int64_t kAligned = 64;
  std::vector<UpdateBatch> blocks;
  int64_t room = 0;
  for (size_t i = 0; i < batch.pieces.size(); ++i) {
    const int64_t numel = batch.pieces[i].numel();
    for (int64_t begin = 0, end; begin < numel; begin = end) {
      if (room < kAligned) {
        blocks.push_back({.unit = batch.unit});
        blocks.back().states.resize(batch.states.size());
        room = block_numel(batch.pieces[i].device(), packed);
      }
      end = std::min(numel, begin + room / kAligned * kAligned);
      append(blocks.back(), batch, kept, i, begin, end);
      room -= end - begin;
    }
  }
  return blocks;
}

// Casts updated values for the gathers, while they are still in a cache. Pieces that only padding parts are one run; to
// cast the padding is no harm.
void cast_for_gathers(const UpdateBatch& batch) {
  const torch::Tensor& shard = batch.unit->shard;
  torch::Tensor gathered = batch.unit->collectives->shard();
  if (gathered.is_alias_of(shard)) return;
  layout::Range run;
  const auto cast = [&] { gathered.slice(0, run.begin, run.end).copy_(shard.slice(0, run.begin, run.end)); };
  for (const torch::Tensor& piece : batch.pieces) {
    if (piece.numel() == 0) continue;
    const int64_t begin = piece.storage_offset();  // within the shard
    if (begin - run.end >= layout::kAlignmentNumel) {
      cast();
      run.begin = begin;
    }
    run.end = begin + piece.numel();
  }
  cast();
}

}  // namespace

RuleOnPieces::RuleOnPieces(std::shared_ptr<engine::Model> model, Rule rule, std::vector<ParameterGroup> groups,
                           const std::vector<size_t>& members)
    : model_(std::move(model)), rule_(std::move(rule)), groups_(std::move(groups)), kept_(kept_tensors(rule_)) {
  check_settings(rule_.name, rule_.defaults, groups_);
  check_patterns(members);
  check_devices(members);
  groups_.emplace_back();
  const auto& parameters = model_->parameters();
  members_.resize(groups_.size());
  states_.assign(kept_.size(), std::vector<torch::Tensor>(parameters.size()));
  steps_.resize(parameters.size());
  for (size_t i : members) {
    const auto named = [&](const ParameterGroup& group) { return matches_any(group.patterns, parameters[i].name); };
    members_[std::find_if(groups_.begin(), groups_.end() - 1, named) - groups_.begin()].push_back(i);
    if (model_->trainable(i)) make_state(i);
  }
}

// Frozen parameters have none until they are unfrozen.
void RuleOnPieces::make_state(size_t parameter) {
  const torch::Tensor& piece = model_->parameters()[parameter].piece;
  int64_t bytes = 0;
  for (size_t i = 0; i < kept_.size(); ++i) {
    states_[i][parameter] = model_->new_state(parameter, kept_[i].numel_for(piece.numel()), kept_[i].type);
    bytes += static_cast<int64_t>(states_[i][parameter].nbytes());
  }
  steps_[parameter] =
      torch::zeros({}, torch::dtype(torch::kFloat32).device(rule_.kernels_read_steps ? piece.device() : torch::kCPU));
  bytes_.add(bytes);
}

void RuleOnPieces::check_patterns(const std::vector<size_t>& members) const {
  const auto& all = model_->parameters();
  for (const ParameterGroup& group : groups_) {
    FSDP_CHECK(!group.patterns.empty(),
               "{}: a group has no patterns, so that it would set nothing. Name the parameters that it is for, such as "
               "\"*.bias\".",
               rule_.name);
    for (const std::string& pattern : group.patterns) {
      FSDP_CHECK(std::any_of(members.begin(), members.end(), [&](size_t i) { return matches(pattern, all[i].name); }),
                 "{}: the pattern '{}' matches no parameter that it steps; the first one is named '{}'", rule_.name,
                 pattern, members.empty() ? "" : all[members[0]].name);
    }
  }
}

void RuleOnPieces::check_devices(const std::vector<size_t>& members) const {
  const bool only_on_cpu = std::any_of(rule_.states.begin(), rule_.states.end(),
                                       [](const RuleState& state) { return state.format->only_on_cpu; });
  for (size_t i : members) {
    const torch::Device device = model_->parameters()[i].piece.device();
    FSDP_CHECK(!only_on_cpu || device.is_cpu(),
               "{}: state_dtype Block8 is for ranks on the CPU, found {} on {}. Keep the state in BFloat16 or Float32.",
               rule_.name, model_->parameters()[i].name, device.str());
  }
}

void RuleOnPieces::update(const engine::ShardedUnit& unit, const engine::GradientFactors& factors) {
  const bool packed = unpacks_states(rule_);
  KeptStates states(rule_);
  for (size_t group = 0; group < groups_.size(); ++group) {
    const UpdateBatch batch = batch_of(group, unit);
    if (batch.parameters.empty()) continue;
    at::_foreach_add_(batch.steps, 1);
    const Settings settings = resolve(rule_.defaults, groups_[group]);
    for (UpdateBatch& block : rule_.element_wise ? blocks_of(batch, kept_, packed) : std::vector{batch}) {
      block.gradients = factors.times(std::move(block.gradients));
      states.update(block, settings);
      cast_for_gathers(block);
    }
  }
}

UpdateBatch RuleOnPieces::batch_of(size_t group, const engine::ShardedUnit& unit) {
  UpdateBatch batch{.unit = &unit};
  batch.states.resize(states_.size());
  const auto first = std::lower_bound(members_[group].begin(), members_[group].end(), unit.first_piece);
  const auto last = std::lower_bound(first, members_[group].end(), unit.first_piece + unit.parameters.size());
  for (size_t i : std::span(first, last)) {
    const torch::Tensor& piece = model_->parameters()[i].piece;
    const torch::Tensor& gradient = interpose::gradient_of(piece);
    if (!gradient.defined()) continue;
    if (!steps_[i].defined()) make_state(i);
    batch.parameters.push_back(i);
    batch.pieces.push_back(piece);
    batch.gradients.push_back(interpose::plain(gradient));
    batch.steps.push_back(steps_[i]);
    for (size_t state = 0; state < states_.size(); ++state) batch.states[state].push_back(states_[state][i]);
  }
  return batch;
}

void RuleOnPieces::set_lr(double lr) {
  Settings changed = rule_.defaults;
  changed.lr = lr;
  check_settings(rule_.name, changed, {});
  rule_.defaults = changed;
}

void RuleOnPieces::add_to(Optimizer::State& state) const {
  for (size_t i = 0; i < states_.size(); ++i) merge(state.elements, kept_[i].name, states_[i]);
  merge(state.scalars, "step", steps_);
}

std::vector<std::unique_ptr<RuleOnPieces>> on_all_parameters(const ShardedModel& model, Rule rule,
                                                             std::vector<ParameterGroup> groups) {
  std::vector<size_t> all(model.parameters().size());
  std::iota(all.begin(), all.end(), size_t{0});
  std::vector<std::unique_ptr<RuleOnPieces>> rules;
  rules.push_back(std::make_unique<RuleOnPieces>(model.shared_model(), std::move(rule), std::move(groups), all));
  return rules;
}

}  // namespace fsdp::optim
