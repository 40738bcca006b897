// Norms of gradients whose bits do not depend on how the gradients are divided among ranks.
//
// A parameter's elements are taken in blocks of 64, from its start; pieces end at such a block's end, so no block is
// divided. A block is summed in a fixed order, and the blocks' sums are added exactly. The infinity norm is a maximum,
// which has no order. Pure; free to call from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "optim/exact_sum.h"

namespace fsdp::optim {

// The sum over the elements of |element|^norm_type; for infinity the largest |element|.
class NormSum {
 public:
  explicit NormSum(double norm_type) : norm_type_(norm_type) {}
  // A piece that starts at a block's start.
  void add(std::span<const float> piece);
  void add(const NormSum& other);
  double norm() const;

  // The form in which a sum is sent to another rank or device: limbs, then the bits of two doubles for other values.
  static constexpr int kSpecialWord = ExactSum::kLimbs, kLargestWord = kSpecialWord + 1, kWords = kLargestWord + 1;
  using Words = std::array<int64_t, kWords>;
  Words words() const;
  void add(const Words& words);

 private:
  double norm_type_;
  ExactSum sum_;
  double largest_ = 0;
};

}  // namespace fsdp::optim
