// Refusals of plans that no run can have, and of sizes beyond 64 bits. Each throws Error.
#pragma once

#include <fsdp/plan.h>

#include <cstdint>
#include <vector>

namespace fsdp::plan {

// Plans are lists by rank.
inline constexpr int64_t kMostRanks = int64_t{1} << 20;

// 1 to kMostRanks ranks, on hosts that divide them.
void check_ranks(int64_t ranks, int64_t hosts);

// Also: a group that divides the ranks, and numbers of bytes and buffers that exist.
void check_sharding(const Sharding& sharding);

// At least one unit, and sizes whose bytes, in any form that a rank holds them in, fit in 64 bits.
void check_units(const std::vector<Unit>& units, const Sharding& sharding);

}  // namespace fsdp::plan
