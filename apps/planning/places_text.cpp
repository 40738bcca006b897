#include "planning/places_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

#include "console/units.h"
#include "planning/plan_text.h"

namespace trainer {

namespace {

using fsdp::plan::MeshAxis;
using fsdp::plan::MeshCoordinates;
using fsdp::plan::MeshPlaces;

// "0-1, 2-3": neighbours on one host. Empty for many hosts.
std::string borders_text(const std::vector<int64_t>& hosts) {
  constexpr size_t kMost = 8;
  std::vector<std::string> ranges;
  for (size_t begin = 0, end = 0; begin < hosts.size() && ranges.size() <= kMost; begin = end) {
    while (end < hosts.size() && hosts[end] == hosts[begin]) ++end;
    ranges.push_back(range_text(static_cast<int64_t>(begin), static_cast<int64_t>(end) - 1));
  }
  return ranges.size() > kMost ? "" : fmt::format("{}", fmt::join(ranges, ", "));
}

int64_t number_of_hosts(const std::vector<int64_t>& hosts) {
  return static_cast<int64_t>(std::set<int64_t>(hosts.begin(), hosts.end()).size());
}

std::string axis_text(const MeshPlaces& places, const std::string& name, MeshAxis axis) {
  int64_t fewest = places.hosts(), most = 1;
  places.for_each([&](const MeshCoordinates& at) {
    if (at.*axis > 0) return;
    const int64_t hosts = number_of_hosts(places.hosts_along(axis, at));
    fewest = std::min(fewest, hosts);
    most = std::max(most, hosts);
  });
  if (most == 1) return name + " share a host";
  return fmt::format("{} lie on {}", name,
                     fewest == most ? counted(most, "host") : fmt::format("{} to {} hosts", fewest, most));
}

// Those of the first pipeline, if all others have their borders there too.
std::string pipeline_borders(const MeshPlaces& places) {
  const std::vector<int64_t> hosts = places.hosts_along(&MeshCoordinates::pipeline, {});
  const std::string first = borders_text(hosts);
  bool all_alike = number_of_hosts(hosts) > 1;
  places.for_each([&](const MeshCoordinates& at) {
    if (at.pipeline == 0)
      all_alike = all_alike && borders_text(places.hosts_along(&MeshCoordinates::pipeline, at)) == first;
  });
  return all_alike && !first.empty() ? ": " + first : "";
}

}  // namespace

std::string places_text(const MeshPlaces& places) {
  if (places.hosts() == 1) return "all ranks share a host";
  const fsdp::plan::MeshSizes& sizes = places.sizes();
  std::vector<std::string> parts;
  if (sizes.tensor > 1) parts.push_back(axis_text(places, "tensor ranks", &MeshCoordinates::tensor));
  if (sizes.pipeline > 1)
    parts.push_back(axis_text(places, "the ranks of a pipeline", &MeshCoordinates::pipeline) +
                    pipeline_borders(places));
  if (sizes.data > 1) parts.push_back(axis_text(places, "data ranks", &MeshCoordinates::data));
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace trainer
