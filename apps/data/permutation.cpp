#include "data/permutation.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace data {

namespace {

constexpr uint64_t kGamma = 0x9e3779b97f4a7c15u;

uint64_t mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The least even number, and at least 4, whose square is at least `count`. In an odd base the network gives even
// permutations alone, or odd ones alone; in base 2 not all as often.
uint64_t base_for(uint64_t count) {
  auto root = static_cast<uint64_t>(std::sqrt(static_cast<double>(count)));
  while (root > 0 && root * root >= count) --root;
  while (root * root < count) ++root;
  return std::max<uint64_t>(root + root % 2, 4);
}

}  // namespace

Permutation::Permutation(int64_t count, uint64_t seed, uint64_t epoch)
    : count_(static_cast<uint64_t>(count)), base_(base_for(count_)) {
  // Through the generator once, so that neighbouring seeds and epochs have nothing in common.
  uint64_t state = mixed(seed + kGamma) + epoch;
  for (uint64_t& key : keys_) key = mixed(state += kGamma);
}

uint64_t Permutation::once(uint64_t number) const {
  uint64_t left = number / base_, right = number % base_;
  // The bias of the remainder is below base / 2^64.
  for (uint64_t key : keys_) left = std::exchange(right, (left + mixed(right + key) % base_) % base_);
  return left * base_ + right;
}

int64_t Permutation::at(int64_t place) const {
  uint64_t number = static_cast<uint64_t>(place);
  do number = once(number);
  while (number >= count_);
  return static_cast<int64_t>(number);
}

}  // namespace data
