// A rank's control: the counters and texts that it shows to its peers, at the start of its shared memory. Only the
// owner writes it, but for the bell.
//
// Counters lie on cache lines of their own. Counters only grow, and are read and written with sequential
// consistency: a rank that falls asleep and a peer that would have to wake it must not miss each other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collectives/shm/rank_memory.h"

namespace fsdp::collectives::shm {

// Two lines: processors fetch them in pairs.
inline constexpr size_t kLineBytes = 128;

struct alignas(kLineBytes) Counter {
  std::atomic<uint64_t> value{0};

  void set(uint64_t to) { value.store(to); }
  uint64_t get() const { return value.load(); }
};

// The state of a rank, for peers that wait for it.
enum class Ending : uint32_t { None, Returned, Left, Failed };
enum class Phase : uint64_t { Runs, AwaitsReduction, AwaitsEndOfBackward, Count };

inline constexpr size_t kMessageBytes = 4096;
inline constexpr size_t kPurposeBytes = 512;
inline constexpr size_t kMailboxBytes = size_t{4} << 10;

// One round of an operation of the whole group: what the rank takes it for, and what it has for its peers.
struct Round {
  uint64_t operation = 0;  // how many this group has begun
  uint64_t bytes = 0;      // of the whole operation
  char purpose[kPurposeBytes] = {};
  alignas(kLineBytes) char mailbox[kMailboxBytes];
};

// A part of a rank's memory.
struct Segment {
  int file = -1;     // its number in the rank's process
  size_t bytes = 0;  // that are reserved, more of them than the file may have
};

struct Control {
  // To wake the rank: a futex. Peers ring it only where `sleeping` says that it may be asleep.
  alignas(kLineBytes) std::atomic<uint32_t> bell{0};
  alignas(kLineBytes) std::atomic<uint32_t> sleeping{0};
  Counter phase;                     // how often it changed, times Phase::Count, plus the Phase
  Counter waits;                     // long ones, times two, minus one while one is under way
  Counter looks;                     // how often the rank has looked at its peers in them
  Counter moves;                     // how often it has changed something that peers see
  char purpose[kPurposeBytes] = {};  // of the last of them; written before `waits` says so

  Counter calls;            // of worlds: those begun and those ended; odd while the rank is in one
  uint64_t call_world = 0;  // that one, written before `calls` says so
  uint64_t call_number = 0;
  char call_purpose[kPurposeBytes] = {};

  alignas(kLineBytes) std::atomic<Ending> ending{Ending::None};
  // Written before the ending says so.
  int32_t failed_rank = 0;
  bool of_connection = false;
  char message[kMessageBytes] = {};

  // By number; this lies in the first. Written before an address in the segment is told.
  Segment segments[kMostSegments];

  Counter rounds;  // of operations of the whole group, begun so far
  Round round[2];  // that of the last number, and that of the one before
};

// The part of a control that is about one unit. Followed by a byte for each parameter: whether there is a gradient of
// it.
struct UnitControl {
  Counter entered;    // the epoch that the rank has finished reading for
  Counter published;  // the epoch that its shard is written for
  Counter offered;    // reductions begun
  Counter taken;      // reductions of which the rank has added up its slice
  Counter copied;     // reductions of which the rank has copied the slices of its replicas
  // Written before `offered` says so: where in the rank's memory its gradients begin, and the sum of its shard where
  // that has replicas.
  alignas(kLineBytes) uint64_t gradients = 0;
  uint64_t sum = 0;

  uint8_t* present() { return reinterpret_cast<uint8_t*>(this + 1); }
  const uint8_t* present() const { return reinterpret_cast<const uint8_t*>(this + 1); }
};

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free,
              "atomics with locks do not work between processes");

}  // namespace fsdp::collectives::shm
