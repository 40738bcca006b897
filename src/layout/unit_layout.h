// A unit's flat layout: where each parameter lies in the unit, which part of the unit each rank owns, and which part of
// its gradients each rank adds up.
//
// Consecutive ranks form a shard group: together they own the whole unit, a shard each. Ranks at the same place of
// different groups own the same shard and are each other's replicas. Each replica adds up a slice of that shard's
// gradients, so that the work of a reduction is always divided by the number of ranks. With one group, full sharding, a
// slice is a shard; with groups of one rank, plain data parallelism, a shard is the unit.
//
// Offsets and lengths are in elements of the unit's dtype. Every parameter starts, and every shard ends, at a multiple
// of kAlignmentNumel, so that vectorised kernels see the same tails whatever the number of ranks. Pure arithmetic:
// immutable once built, free to share between threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fsdp::layout {

inline constexpr int64_t kAlignmentNumel = 64;

// The elements from `begin` up to, and without, `end`.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t numel() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// The intersection of both ranges; {0, 0} where they do not meet.
Range intersect(Range a, Range b);

class UnitLayout {
 public:
  // `numels[i]` is the size of parameter i; `shards` the size of a shard group, which divides `ranks`. Throws Error for
  // a negative size, no ranks, or a total beyond int64.
  UnitLayout(std::vector<int64_t> numels, int ranks, int shards);

  int ranks() const { return ranks_; }
  int shards() const { return shards_; }
  int shard_index(int rank) const { return rank % shards_; }
  int group_index(int rank) const { return rank / shards_; }
  size_t parameters() const { return numels_.size(); }
  int64_t full_numel() const { return slice_numel_ * ranks_; }    // what a full buffer holds
  int64_t shard_numel() const { return full_numel() / shards_; }  // what each rank owns, padding included
  int64_t slice_numel() const { return slice_numel_; }            // what each rank adds up
  int64_t numel_of(size_t parameter) const { return numels_[parameter]; }
  int64_t offset_of(size_t parameter) const { return offsets_[parameter]; }  // within the full buffer
  Range shard_of(int rank) const;                                            // within the full buffer
  Range slice_of(int rank) const;                      // within the full buffer; a part of the rank's shard
  Range piece_of(size_t parameter, int rank) const;    // within the rank's shard; empty where it owns none of it
  Range segment_of(size_t parameter, int rank) const;  // within the rank's slice; empty where it adds up none of it
  // Where that piece starts within the parameter; 0 for an empty one.
  int64_t piece_offset_of(size_t parameter, int rank) const;

 private:
  Range part_of(size_t parameter, Range range) const;  // of the parameter, within `range` of the full buffer

  std::vector<int64_t> numels_;
  std::vector<int64_t> offsets_;
  int ranks_;
  int shards_;
  int64_t slice_numel_ = 0;
};

}  // namespace fsdp::layout
