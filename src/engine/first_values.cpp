#include "engine/first_values.h"

#include <algorithm>
#include <utility>

#include "deferred/default_generator.h"
#include "deferred/real_tensors.h"
#include "interpose/piece_storage.h"

namespace fsdp::engine {

FirstValues::FirstValues(const ModelSpec& spec) : from_rank0_(spec.sync_module_states) {
  if (spec.initialise) return;
  interpose::Unwatched ours;
  bool any = false;
  for (const UnitSpec& unit : spec.units) {
    std::vector<torch::Tensor>& deferred = of_units_.emplace_back();
    for (const auto& [name, tensor] : unit.tensors.parameters) {
      const bool missing = is_deferred(tensor);
      deferred.push_back(missing ? tensor.detach() : torch::Tensor());
      any |= missing;
    }
  }
  if (!any) of_units_.clear();
}

std::vector<bool> FirstValues::missing(const Units& units) const {
  std::vector<bool> missing;
  for (size_t i = 0; i < units.size(); ++i) {
    for (size_t k = 0; k < units[i]->shapes.size(); ++k) missing.push_back(are_missing() && of_units_[i][k].defined());
  }
  return missing;
}

void FirstValues::write(Units& units, collectives::Group& group, const std::vector<bool>& loaded) {
  bool wrote = false;
  for (size_t i = 0; i < of_units_.size(); ++i) {
    ShardedUnit& unit = *units[i];
    for (size_t k = 0; k < unit.shapes.size(); ++k) {
      if (loaded[unit.first_piece + k]) of_units_[i][k] = torch::Tensor();
    }
    if (std::ranges::none_of(of_units_[i], [](const auto& tensor) { return tensor.defined(); })) continue;
    write_unit(unit, of_units_[i], group);
    wrote = true;
  }
  const auto until_drawn = std::exchange(of_units_, {});  // numbers of tensors that are gone are not drawn
  wrote ? deferred::settle_draws() : deferred::forget_draws();
}

void FirstValues::write_unit(ShardedUnit& unit, const std::vector<torch::Tensor>& wanted, collectives::Group& group) {
  torch::Tensor full = deferred::zeros_for_values(unit.layout.full_numel(), unit.shard.device());
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].defined()) deferred::write_value(wanted[i], unit.view(full, i));
  }
  if (from_rank0_) group.broadcast_(full, 0);
  const int64_t begin = unit.layout.shard_of(group.rank()).begin;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const layout::Range piece = unit.layout.piece_of(i, group.rank());
    if (!wanted[i].defined()) continue;
    unit.shard.slice(0, piece.begin, piece.end).copy_(full.slice(0, begin + piece.begin, begin + piece.end));
  }
}

}  // namespace fsdp::engine
