#include "collectives/hosts/context.h"

#include <chrono>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

namespace fsdp::collectives::hosts {

namespace {

// A rank that waits for another host is the first to say for whom, and those of its host who wait for it hear that.
constexpr std::chrono::milliseconds kGrace{2000};

GroupSpec spec_of_host(const GroupSpec& spec) {
  const int ranks = spec.ranks_of_a_host, host = spec.rank / ranks;
  GroupSpec own{.store = c10::make_intrusive<c10d::PrefixStore>(fmt::format("host{}", host), spec.store),
                .rank = spec.rank % ranks,
                .size = ranks,
                .timeout = spec.timeout + kGrace,
                .calls = spec.calls,
                .place = spec.place};
  for (int rank = host * ranks; rank < (host + 1) * ranks; ++rank)
    own.world_ranks.push_back(spec.world_ranks.empty() ? rank : spec.world_ranks[rank]);
  return own;
}

}  // namespace

HostsContext::HostsContext(const GroupSpec& spec, std::shared_ptr<Wire> wire)
    : ranks_of_a_host_(spec.ranks_of_a_host),
      shared_(spec_of_host(spec)),
      wire_(std::move(wire)),
      progress_(shared_.ranks()) {}

std::vector<int> HostsContext::counterparts_in_group(const layout::UnitLayout& layout) const {
  std::vector<int> counterparts;
  for (int other = 0; other < hosts(); ++other) {
    const bool is_in_group = layout.group_index(counterpart(other)) == layout.group_index(rank());
    if (other != host() && is_in_group) counterparts.push_back(counterpart(other));
  }
  return counterparts;
}

}  // namespace fsdp::collectives::hosts
