// A random order of numbers that takes no memory, whatever their count: each place is computed when it is asked for.
#pragma once

#include <array>
#include <cstdint>

namespace data {

// A permutation of 0 .. count-1, the same on every machine and standard library.
//
// A Feistel network over pairs of digits of a base whose square is at least count; numbers beyond count are sent
// through again until one is within ("cycle walking"): Black and Rogaway, 2002, "Ciphers with arbitrary finite
// domains", https://web.cs.ucdavis.edu/~rogaway/papers/subset.pdf. The rounds mix by splitmix64 (Steele, Lea and Flood,
// 2014, "Fast splittable pseudorandom number generators"). It serves to mix data, not to keep secrets.
class Permutation {
 public:
  // 0 <= count <= 2^62
  Permutation(int64_t count, uint64_t seed, uint64_t epoch);

  // The element at `place`, 0 <= place < count. A few dozen nanoseconds.
  int64_t at(int64_t place) const;

 private:
  uint64_t once(uint64_t number) const;

  uint64_t count_, base_;
  std::array<uint64_t, 8> keys_;  // one per round
};

}  // namespace data
