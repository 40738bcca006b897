#include "planning/listed_model.h"

#include <algorithm>
#include <array>
#include <utility>

#include "options/frozen.h"
#include "plan/automatic_units.h"

namespace trainer {

namespace {

using models::ListedParameter;

// As fsdp::MuonOptions has it: a matrix, unless its name is that of an embedding or a head.
bool is_layer_matrix(const ListedParameter& parameter) {
  constexpr std::array<const char*, 6> kOthers = {"embed", "token", "position", "wte", "wpe", "head"};
  return parameter.shape.size() >= 2 && std::ranges::none_of(kOthers, [&](const char* other) {
           return parameter.name.find(other) != std::string::npos;
         });
}

// The parameters by unit. The first is the rest, which may be empty.
std::vector<std::vector<const ListedParameter*>> by_unit(const models::ParameterList& list) {
  std::vector<fsdp::plan::NamedShape> shapes;
  for (const ListedParameter& parameter : list.parameters) shapes.push_back({parameter.name, parameter.shape});
  fsdp::plan::UnitOfMember numbers;
  size_t count = 1;
  for (const fsdp::plan::AutomaticUnit& unit :
       automatic_units(fsdp::plan::tree_of_names(shapes), fsdp::plan::kLargestShare, /*in_order_of_use=*/false)) {
    if (unit.members.empty()) continue;
    for (const std::string& member : unit.members) numbers.emplace(member, count);
    ++count;
  }
  std::vector<std::vector<const ListedParameter*>> units(count);
  for (const ListedParameter& parameter : list.parameters)
    units[fsdp::plan::unit_of(parameter.name, numbers)].push_back(&parameter);
  return units;
}

}  // namespace

int64_t ListedModel::root_numel() const { return has_root ? numel_of(units.front()) : 0; }

int64_t ListedModel::largest_block_numel() const {
  int64_t largest = 0;
  for (size_t i = has_root ? 1 : 0; i < units.size(); ++i) largest = std::max(largest, numel_of(units[i]));
  return largest;
}

ListedModel listed_model(const models::ParameterList& list, const std::vector<std::string>& frozen) {
  const std::vector<std::vector<const ListedParameter*>> units = by_unit(list);
  ListedModel model{.has_root = !units.front().empty(), .numel = list.numel()};
  for (const std::vector<const ListedParameter*>& parameters : units) {
    fsdp::plan::Unit unit;
    for (const ListedParameter* parameter : parameters) {
      const bool is_frozen = std::ranges::any_of(
          frozen, [&](const std::string& pattern) { return names_parameter(pattern, parameter->name); });
      unit.push_back({parameter->numel(), is_layer_matrix(*parameter), !is_frozen});
    }
    if (!unit.empty()) model.units.push_back(std::move(unit));
  }
  return model;
}

}  // namespace trainer
