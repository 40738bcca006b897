#include "engine/unit_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <optional>
#include <utility>

namespace fsdp::engine {

namespace {

constexpr size_t kMostListed = 4;

}  // namespace

std::vector<UnitFacts> without_common_prefix(std::vector<UnitFacts> units) {
  std::optional<std::string> prefix;
  for (const UnitFacts& unit : units) {
    const size_t last = unit.name.rfind('.');
    if (last == std::string::npos) continue;
    const size_t before = unit.name.rfind('.', last - 1);
    std::string own = last == 0 || before == std::string::npos ? "" : unit.name.substr(0, before + 1);
    if (prefix && *prefix != own) return units;
    prefix = std::move(own);
  }
  for (UnitFacts& unit : units) {
    if (prefix && unit.name.starts_with(*prefix)) unit.name.erase(0, prefix->size());
  }
  return units;
}

std::string list_units(const std::vector<UnitFacts>& units, const std::vector<schedule::UnitId>& listed) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < listed.size();) {
    size_t end = i + 1;
    const int step = end < listed.size() ? listed[end] - listed[i] : 0;
    while (std::abs(step) == 1 && end < listed.size() && listed[end] - listed[end - 1] == step) ++end;
    if (end - i >= 3) {
      parts.push_back(fmt::format("{} to {}", units[listed[i]].name, units[listed[end - 1]].name));
    } else {
      end = i + 1;
      parts.push_back(units[listed[i]].name);
    }
    i = end;
  }
  return list_first(std::move(parts));
}

std::string list_first(std::vector<std::string> parts) {
  if (parts.size() <= kMostListed) return fmt::format("{}", fmt::join(parts, ", "));
  const size_t left_out = parts.size() - (kMostListed - 1);
  parts.resize(kMostListed - 1);
  return fmt::format("{} and {} more", fmt::join(parts, ", "), left_out);
}

}  // namespace fsdp::engine
