// A random order of numbers that takes no memory, whatever their count: each place is computed when it is read.
// fsdp::Sampler and fsdp-train's data share it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

namespace fsdp {

// A permutation of 0 .. count-1, the same on every machine and standard library.
//
// A Feistel network over pairs of digits of a base whose square is at least count. A number beyond count goes through
// it again until it is within ("cycle walking"): Black and Rogaway, 2002, "Ciphers with arbitrary finite
// domains", https://web.cs.ucdavis.edu/~rogaway/papers/subset.pdf. The rounds mix by splitmix64 (Steele, Lea and Flood,
// 2014, "Fast splittable pseudorandom number generators"). It serves to mix data, not to keep secrets.
class Permutation {
 public:
  static constexpr int64_t kMostCount = int64_t{1} << 62;

  // 0 <= count <= kMostCount
  Permutation(int64_t count, uint64_t seed, uint64_t epoch)
      : count_(static_cast<uint64_t>(count)), base_(base_for(count_)) {
    // Through the generator once, so that neighbouring seeds and epochs have nothing in common.
    uint64_t state = mixed(seed + kGamma) + epoch;
    for (uint64_t& key : keys_) key = mixed(state += kGamma);
  }

  // The element at `place`, 0 <= place < count. A few dozen nanoseconds.
  int64_t at(int64_t place) const {
    uint64_t number = static_cast<uint64_t>(place);
    do number = once(number);
    while (number >= count_);
    return static_cast<int64_t>(number);
  }

 private:
  static constexpr uint64_t kGamma = 0x9e3779b97f4a7c15u;

  static uint64_t mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // The least even number, and at least 4, whose square is at least `count`. In an odd base the network gives even
  // permutations alone, or odd ones alone; in base 2 not all as often.
  static uint64_t base_for(uint64_t count) {
    auto root = static_cast<uint64_t>(std::sqrt(static_cast<double>(count)));
    while (root > 0 && root * root >= count) --root;
    while (root * root < count) ++root;
    return std::max<uint64_t>(root + root % 2, 4);
  }

  uint64_t once(uint64_t number) const {
    uint64_t left = number / base_, right = number % base_;
    // The bias of the remainder is below base / 2^64.
    for (uint64_t key : keys_) left = std::exchange(right, (left + mixed(right + key) % base_) % base_);
    return left * base_ + right;
  }

  uint64_t count_, base_;
  std::array<uint64_t, 8> keys_;  // one per round
};

}  // namespace fsdp
