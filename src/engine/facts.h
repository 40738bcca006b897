// The facts of a model that the order of its steps depends on, read from its units.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/sharded_unit.h"
#include "schedule/strategies.h"

namespace fsdp::engine {

inline schedule::Facts facts_of(const Units& units, int shards, const collectives::Group& group) {
  std::vector<std::string> names;
  for (const auto& unit : units) names.push_back(unit->name);
  schedule::Facts facts = schedule::facts_of(std::move(names), group.rank(), group.size(), shards);
  for (int rank = 0; rank < group.size(); ++rank) facts.names.push_back(group.name_of(rank));
  if (units.empty()) return facts;
  const collectives::Capabilities capabilities = units[0]->collectives->capabilities();
  facts.one_sided = capabilities.one_sided;
  facts.any_order = capabilities.any_order;
  facts.joins = capabilities.joins;
  return facts;
}

}  // namespace fsdp::engine
