#include "plan/checks.h"

#include <algorithm>

#include "base/error.h"

namespace fsdp::plan {

namespace {

// All bytes of a plan together are less than 2^10 for an element of the largest unit, times the units.
constexpr int64_t kMostElements = int64_t{1} << 53;
// Elements that a parameter and a rank's slice are rounded up to.
constexpr int64_t kPadding = 64;

void check_bytes(const char* member, int64_t found, int64_t least, int64_t most) {
  FSDP_CHECK(found >= least && found <= most, "plan: found {} {}, expected {} to {}.", member, found, least, most);
}

}  // namespace

void check_ranks(int64_t ranks, int64_t hosts) {
  FSDP_CHECK(ranks >= 1 && ranks <= kMostRanks, "plan: found {} ranks, expected 1 to {}.", ranks, kMostRanks);
  FSDP_CHECK(hosts >= 1 && ranks % hosts == 0,
             "plan: found {} hosts for {} ranks, expected hosts of equally many ranks each. Use a divisor of {}.",
             hosts, ranks, ranks);
}

void check_sharding(const Sharding& sharding) {
  check_ranks(sharding.ranks, sharding.hosts);
  FSDP_CHECK(sharding.group >= 1 && sharding.ranks % sharding.group == 0,
             "plan: found a group of {} ranks that hold the model once, expected a divisor of {}, the number of ranks. "
             "Use 1 for replicas, or {} to divide the model among all ranks.",
             sharding.group, sharding.ranks, sharding.ranks);
  check_bytes("Sharding::param_bytes", sharding.param_bytes, 1, 8);
  check_bytes("Sharding::reduce_bytes", sharding.reduce_bytes, 1, 8);
  check_bytes("Sharding::moment.per_element", sharding.moment.per_element, 0, 16);
  check_bytes("Sharding::moment.per_block", sharding.moment.per_block, 0, 64);
  FSDP_CHECK(sharding.buffers >= 1, "plan: found {} buffers for full units, expected at least 1. Use 2.",
             sharding.buffers);
  FSDP_CHECK(
      sharding.on_gpus || !sharding.shards_on_host,
      "plan: found Sharding::shards_on_host for ranks on the CPU, whose shards are there, expected on_gpus. Leave "
      "it out.");
}

void check_units(const std::vector<Unit>& units, const Sharding& sharding) {
  FSDP_CHECK(!units.empty(), "plan: found no units, expected at least 1. Pass the parameters of the model.");
  const auto count = static_cast<int64_t>(units.size());
  const int64_t most = kMostElements / count;
  for (size_t i = 0; i < units.size(); ++i) {
    int64_t left = most - kPadding * sharding.ranks;
    for (const Parameter& parameter : units[i]) {
      FSDP_CHECK(parameter.numel >= 0, "plan: found a parameter of {} elements in unit {}, expected 0 or more.",
                 parameter.numel, i);
      FSDP_CHECK(parameter.numel <= left - kPadding,
                 "plan: found a parameter of {} elements in unit {} of {}, whose bytes on {} ranks may not fit in 64 "
                 "bits. Expected at most {} elements in a unit, padding included.",
                 parameter.numel, i, count, sharding.ranks, std::max<int64_t>(0, most));
      left -= parameter.numel + kPadding;
    }
  }
}

}  // namespace fsdp::plan
