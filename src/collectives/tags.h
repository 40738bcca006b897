// Which tag each kind of message has: kinds and units never match each other's.
#pragma once

namespace fsdp::collectives {

// A group's own collectives.
enum GroupTag : int { kBarrierTag, kBroadcastTag, kAllGatherTag, kPartTag, kSumTag, kGroupTags };

// A unit's.
enum class UnitMessage : int { Gather, Slice, Flags, Sum, Kinds };

constexpr int tag_of(int unit, UnitMessage kind) {
  return kGroupTags + unit * static_cast<int>(UnitMessage::Kinds) + static_cast<int>(kind);
}

}  // namespace fsdp::collectives
