#include "planning/mesh_places.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "console/units.h"
#include "planning/plan_text.h"

namespace trainer {

namespace {

fsdp::world::Grid grid_of(const MeshCoordinates& sizes, int64_t ranks_of_host) {
  std::vector<fsdp::world::HostOfRank> hosts;
  for (int64_t rank = 0; rank < sizes.data * sizes.pipeline * sizes.tensor; ++rank)
    hosts.push_back({.number = rank / ranks_of_host, .name = ""});
  return {{{"data", static_cast<int>(sizes.data)},
           {"pipeline", static_cast<int>(sizes.pipeline)},
           {"tensor", static_cast<int>(sizes.tensor)}},
          hosts};
}

// "0-1, 2-3": neighbours on one host. Empty for many hosts.
std::string borders_text(const std::vector<int64_t>& hosts) {
  constexpr size_t kMost = 8;
  std::vector<std::string> ranges;
  for (size_t begin = 0, end = 0; begin < hosts.size(); begin = end) {
    while (end < hosts.size() && hosts[end] == hosts[begin]) ++end;
    ranges.push_back(range_text(static_cast<int64_t>(begin), static_cast<int64_t>(end) - 1));
  }
  return ranges.size() > kMost ? "" : fmt::format("{}", fmt::join(ranges, ", "));
}

int64_t number_of_hosts(const std::vector<int64_t>& hosts) {
  return static_cast<int64_t>(std::set<int64_t>(hosts.begin(), hosts.end()).size());
}

}  // namespace

MeshPlaces::MeshPlaces(const PlannedMesh& mesh, int64_t hosts)
    : sizes_{mesh.data, mesh.pipeline, mesh.tensor},
      hosts_(hosts),
      ranks_of_host_(mesh.data * mesh.pipeline * mesh.tensor / hosts),
      grid_(grid_of(sizes_, ranks_of_host_)) {}

int64_t MeshPlaces::rank_of(const MeshCoordinates& at) const {
  return grid_.ranks()[static_cast<size_t>((at.data * sizes_.pipeline + at.pipeline) * sizes_.tensor + at.tensor)];
}

std::vector<int64_t> MeshPlaces::hosts_along(MeshAxis axis, MeshCoordinates at) const {
  std::vector<int64_t> hosts;
  for (at.*axis = 0; at.*axis < sizes_.*axis; ++(at.*axis)) hosts.push_back(host_of(at));
  return hosts;
}

std::string MeshPlaces::axis_text(const std::string& name, MeshAxis axis) const {
  int64_t fewest = hosts_, most = 1;
  for_each([&](const MeshCoordinates& at) {
    if (at.*axis > 0) return;
    const int64_t hosts = number_of_hosts(hosts_along(axis, at));
    fewest = std::min(fewest, hosts);
    most = std::max(most, hosts);
  });
  if (most == 1) return name + " share a host";
  return fmt::format("{} lie on {}", name,
                     fewest == most ? counted(most, "host") : fmt::format("{} to {} hosts", fewest, most));
}

// Those of the first pipeline, if all others have their borders there too.
std::string MeshPlaces::pipeline_borders() const {
  const std::string first = borders_text(hosts_along(&MeshCoordinates::pipeline, {}));
  bool all_alike = number_of_hosts(hosts_along(&MeshCoordinates::pipeline, {})) > 1;
  for_each([&](const MeshCoordinates& at) {
    if (at.pipeline == 0) all_alike = all_alike && borders_text(hosts_along(&MeshCoordinates::pipeline, at)) == first;
  });
  return all_alike && !first.empty() ? ": " + first : "";
}

std::string MeshPlaces::text() const {
  if (hosts_ == 1) return "all ranks share a host";
  std::vector<std::string> parts;
  if (sizes_.tensor > 1) parts.push_back(axis_text("tensor ranks", &MeshCoordinates::tensor));
  if (sizes_.pipeline > 1)
    parts.push_back(axis_text("the ranks of a pipeline", &MeshCoordinates::pipeline) + pipeline_borders());
  if (sizes_.data > 1) parts.push_back(axis_text("data ranks", &MeshCoordinates::data));
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace trainer
