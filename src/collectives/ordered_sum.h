// The arithmetic of a reduction: adds the ranks' gradients of one shard to its sum, one after the other.
//
// The sum is fp32 whatever the gradients are. Floating-point addition is not associative, so the order is the contract:
// ((s + g0) + g1) + ... in rank order, going on from what the sum holds. Every backend calls this code, and so every
// backend gives the same bits. Plain memory, no tensors; the calling thread does the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/presence.h"
#include "layout/unit_layout.h"

namespace fsdp::collectives {

enum class ElementType { Float32, BFloat16, Float16 };
inline size_t bytes_of(ElementType type) { return type == ElementType::Float32 ? 4 : 2; }

// One rank's gradients of the shard.
struct Addend {
  const void* values;                // as long as the shard
  std::span<const uint8_t> present;  // per segment: a Presence (presence.h)
};

// Adds `addends`, in order, to `sum`, segment by segment. If a segment is empty, its first gradient is stored, so the
// sum need not be cleared. Ranks without a gradient of it are skipped. `held` is updated. `segments` lie within the
// shard in increasing order and may be empty; elements between them are left alone or overwritten by any value. The
// addends' elements are of `type`. In fp32 the sum may take the place of one of them, where no segment is held yet.
void add_in_order(float* sum, std::vector<uint8_t>& held, std::span<const layout::Range> segments,
                  std::span<const Addend> addends, ElementType type = ElementType::Float32);

}  // namespace fsdp::collectives
