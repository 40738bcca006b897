// The facts of a model that the order of its steps depends on, read from its units.
#pragma once

#include "engine/sharded_unit.h"
#include "schedule/performer.h"

namespace fsdp::engine {

inline schedule::Facts facts_of(const Units& units, int shards, const collectives::Group& group) {
  schedule::Facts facts{.rank = group.rank(), .ranks = group.size(), .shards = shards, .sharers = {}};
  facts.sharers.assign(group.size(), 1);
  for (int rank = 0; rank < group.size(); ++rank) facts.names.push_back(group.name_of(rank));
  for (const auto& unit : units) facts.units.push_back(unit->name);
  if (units.empty()) return facts;
  const layout::UnitLayout& layout = units[0]->layout;
  for (int rank = 0; rank < group.size(); ++rank)
    facts.sharers[rank] = layout.group_index(rank) == layout.group_index(group.rank());
  const collectives::Capabilities capabilities = units[0]->collectives->capabilities();
  facts.one_sided = capabilities.one_sided;
  facts.any_order = capabilities.any_order;
  facts.joins = capabilities.joins;
  return facts;
}

}  // namespace fsdp::engine
