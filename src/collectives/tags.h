// Which tag each kind of message has: kinds and units never match each other's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fsdp::collectives {

// A group's own collectives. Bytes that ranks share have several tags, by their length: those of ranks that make
// different calls must not match, as a transport may end the process then. Small lengths have a tag each.
inline constexpr size_t kExactLengths = 64 << 10;
inline constexpr int kLengths = kExactLengths + 1;
enum GroupTag : int {
  kBarrierTag,
  kBroadcastTag,
  kAnswerTag,  // to a message of a broadcast
  kPartTag,
  kSumTag,
  kFactsTag,
  kExchangeTag,
  kShareTag,
  kGroupTags = kShareTag + kLengths
};

constexpr int share_tag(size_t bytes) {
  return kShareTag + static_cast<int>(bytes <= kExactLengths ? bytes : (bytes ^ bytes >> 16 ^ bytes >> 32) % kLengths);
}

// A unit's.
enum class UnitMessage : int { Gather, Slice, Flags, Sum, Kinds };

inline constexpr int kLayouts = 4096;             // numbers of gradient layouts
inline constexpr int kMostUnits = (1 << 16) - 5;  // with which tags are below those of tensors' messages

constexpr int tag_of(int unit, UnitMessage kind, int layout = 0) {
  return kGroupTags + (unit * static_cast<int>(UnitMessage::Kinds) + static_cast<int>(kind)) * kLayouts + layout;
}

// The messages of tensors between two ranks, by the user's tag. A header has the tensor's shape. The tag of the
// elements has a hash of their number of bytes as well: those of another length must not match, as above.
inline constexpr int kTensorTags = 1 << 30;
inline constexpr int kUserTags = 1 << 15;
inline constexpr int kMostTag = kUserTags - 1;
static_assert(tag_of(kMostUnits - 1, UnitMessage::Sum, kLayouts - 1) < kTensorTags);

constexpr int header_tag(int user_tag) { return kTensorTags + user_tag; }
constexpr int elements_tag(int user_tag, size_t bytes) {
  constexpr int kElements = kTensorTags + (1 << 29), kHashBits = 14;
  const uint64_t hash = (uint64_t{bytes} * 0x9e3779b97f4a7c15) >> (64 - kHashBits);
  return kElements + (user_tag << kHashBits) + static_cast<int>(hash);
}
// True if the tag is of such a message, which belongs to no operation of the whole group.
constexpr bool is_between_two(int64_t tag) { return tag >= kTensorTags; }

// Messages whose length is decided by which parameters are `wanted` must not match where ranks want different ones: a
// transport may end the process then. So they carry this number, and the ranks find out by their flags. (FNV-1a.)
constexpr int number_of(std::span<const uint8_t> wanted) {
  uint32_t hash = 2166136261u;
  for (uint8_t one : wanted) hash = (hash ^ one) * 16777619u;
  return static_cast<int>((hash ^ hash >> 12 ^ hash >> 24) % kLayouts);
}

}  // namespace fsdp::collectives
