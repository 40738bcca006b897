#include "plan/automatic_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace fsdp::plan {

namespace {

constexpr int64_t kSmallestCutNumel = 4096;  // below, a unit is a few pages: messages and padding cost more than it
constexpr size_t kMostPlacesOfRest = 4;      // between blocks; each costs a gather of the whole rest
// Where one parameter is too large in any case, other units than the blocks have to make the largest one so much
// smaller.
constexpr double kLeastGain = 0.75;
// A parameter that holds so much of a module leaves nothing to cut beside it.
constexpr double kMostOfModule = 0.75;

// Modules and parameters that go into one unit together.
struct Atom {
  std::vector<std::string> members = {};
  int64_t numel = 0;
  size_t use = 0;              // of its first parameter
  ParameterSize largest = {};  // of its parameters
  bool alone = false;          // a unit of its own
  bool has_equal = false;      // a block that may be as large as it is
  bool is_recurrent = false;
};

using Atoms = std::vector<Atom>;  // of one unit, or of a model

int64_t numel_of(const Atoms& atoms) {
  int64_t numel = 0;
  for (const Atom& atom : atoms) numel += atom.numel;
  return numel;
}

void add_to(Atom& atom, const ParameterSize& parameter) {
  atom.use = atom.numel == 0 ? parameter.use : std::min(atom.use, parameter.use);
  if (parameter.numel > atom.largest.numel) atom.largest = parameter;
  atom.numel += parameter.numel;
}

void add_below(Atom& atom, const ModuleNode& node) {
  for (const ParameterSize& parameter : node.own) add_to(atom, parameter);
  for (const ModuleNode& child : node.children) add_below(atom, child);
}

Atom whole(const ModuleNode& node) {
  Atom atom{.members = {node.name}, .has_equal = node.has_equal, .is_recurrent = node.is_recurrent};
  add_below(atom, node);
  return atom;
}

// Cuts a model into the smallest parts, which are put together into units afterwards.
class Cutter {
 public:
  // `whole_modules`: a module that is small enough stays together.
  Cutter(int64_t limit, int64_t target, bool whole_modules)
      : limit_(limit), target_(target), whole_modules_(whole_modules) {}

  void cut(const ModuleNode& node, Atoms& atoms) const {
    if (node.numel == 0) return;
    if (node.has_equal || (whole_modules_ && node.numel <= target_ && !node.name.empty())) {
      atoms.push_back(whole(node));
      return;
    }
    cut_own(node, atoms);
    const bool apart = node.numel > target_;  // the blocks together make more than a unit
    for (const ModuleNode& child : node.children) {
      const size_t first = atoms.size();
      cut(child, atoms);
      if (apart && child.has_equal && atoms.size() > first) atoms[first].alone = true;
    }
  }

 private:
  void cut_own(const ModuleNode& node, Atoms& atoms) const {
    if (node.own.empty()) return;
    Atom own{.is_recurrent = node.is_recurrent};
    for (const ParameterSize& parameter : node.own) add_to(own, parameter);
    const bool divides = own.numel > limit_ && !node.is_recurrent &&
                         static_cast<double>(own.largest.numel) <= kMostOfModule * static_cast<double>(own.numel);
    if (divides) {
      for (const ParameterSize& parameter : node.own) {
        Atom one{.members = {parameter.name}};
        add_to(one, parameter);
        atoms.push_back(std::move(one));
      }
      return;
    }
    if (node.children.empty() && !node.name.empty()) {
      own.members = {node.name};
    } else {
      for (const ParameterSize& parameter : node.own) own.members.push_back(parameter.name);
    }
    atoms.push_back(std::move(own));
  }

  int64_t limit_, target_;
  bool whole_modules_;
};

// A division of a model, and what is to be said about it.
struct Division {
  std::vector<Atoms> units;  // without the rest
  Atoms rest;                // what lies outside of all blocks
  size_t places_of_rest = 0;

  // The largest unit that might be divided.
  int64_t largest() const {
    int64_t numel = numel_of(rest);
    for (const Atoms& unit : units) {
      if (!unit[0].has_equal) numel = std::max(numel, numel_of(unit));
    }
    return numel;
  }
};

void add_blocks(const ModuleNode& node, Division& division, bool& in_rest) {
  if (node.numel == 0) return;
  if (node.is_block) {
    division.units.push_back({whole(node)});
    in_rest = false;
    return;
  }
  if (!node.own.empty()) {
    Atom own{.is_recurrent = node.is_recurrent};
    for (const ParameterSize& parameter : node.own) add_to(own, parameter);
    division.rest.push_back(std::move(own));
    division.places_of_rest += !std::exchange(in_rest, true);
  }
  for (const ModuleNode& child : node.children) add_blocks(child, division, in_rest);
}

Division by_blocks(const ModuleNode& root) {
  Division division;
  bool in_rest = false;
  add_blocks(root, division, in_rest);
  return division;
}

// Those of equal uses stay in their order. (libstdc++ 12 has a stable_sort that Clang 19 warns of.)
Atoms by_use(Atoms atoms) {
  std::vector<std::pair<size_t, size_t>> order;
  for (size_t i = 0; i < atoms.size(); ++i) order.emplace_back(atoms[i].use, i);
  std::ranges::sort(order);
  Atoms sorted;
  for (const auto& [use, i] : order) sorted.push_back(std::move(atoms[i]));
  return sorted;
}

Division by_size(const ModuleNode& root, int64_t limit, bool in_order_of_use) {
  const int64_t target = limit / 2;
  Atoms cut;
  Cutter(limit, target, /*whole_modules=*/!in_order_of_use).cut(root, cut);
  Atoms atoms = by_use(std::move(cut));
  Division division;
  bool open = false;
  for (Atom& atom : atoms) {
    if (!open || atom.alone || numel_of(division.units.back()) + atom.numel > target) division.units.emplace_back();
    open = !atom.alone;
    division.units.back().push_back(std::move(atom));
  }
  return division;
}

std::string name_of(const std::vector<std::string>& members) {
  return members.size() == 1 ? members[0] : members.front() + ".." + members.back();
}

// Why no division makes the unit smaller.
std::string why_large(const Atoms& unit, int64_t total) {
  const Atom& atom =
      *std::max_element(unit.begin(), unit.end(), [](const Atom& a, const Atom& b) { return a.numel < b.numel; });
  if (atom.is_recurrent) {
    const size_t dot = atom.largest.name.rfind('.');
    return "one operator takes all parameters of the " +
           (dot == std::string::npos ? "model" : "module " + atom.largest.name.substr(0, dot));
  }
  return fmt::format("the parameter {} alone has {:.0f} %, and a parameter lies in one unit", atom.largest.name,
                     100.0 * static_cast<double>(atom.largest.numel) / static_cast<double>(total));
}

}  // namespace

std::vector<AutomaticUnit> automatic_units(const ModuleNode& root, double share, bool in_order_of_use) {
  const auto most = static_cast<int64_t>(share * static_cast<double>(root.numel));
  const int64_t limit = std::max(most, 2 * kSmallestCutNumel);
  Division division = by_blocks(root);
  const bool scattered = division.places_of_rest > kMostPlacesOfRest;
  if (root.numel > limit && (division.largest() > limit || scattered)) {
    Division cut = by_size(root, limit, in_order_of_use);
    const auto least = static_cast<int64_t>(kLeastGain * static_cast<double>(division.largest()));
    if (scattered || cut.largest() <= std::max(limit, least)) division = std::move(cut);
  }
  const auto made_of = [&](const Atoms& unit, std::string name, std::vector<std::string> members) {
    const bool large = numel_of(unit) > limit && !unit[0].has_equal;
    return AutomaticUnit{std::move(name), std::move(members), large ? why_large(unit, root.numel) : ""};
  };
  std::vector<AutomaticUnit> units;
  if (!division.rest.empty()) units.push_back(made_of(division.rest, kRestOfUnits, {}));
  for (const Atoms& unit : division.units) {
    std::vector<std::string> members;
    for (const Atom& atom : unit) members.insert(members.end(), atom.members.begin(), atom.members.end());
    std::string name = name_of(members);
    units.push_back(made_of(unit, std::move(name), std::move(members)));
  }
  return units;
}

size_t unit_of(std::string name, const UnitOfMember& units) {
  while (true) {
    const auto found = units.find(name);
    if (found != units.end()) return found->second;
    const size_t dot = name.rfind('.');
    if (dot == std::string::npos) return 0;
    name.resize(dot);
  }
}

}  // namespace fsdp::plan
