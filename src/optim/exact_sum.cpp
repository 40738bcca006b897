#include "optim/exact_sum.h"

#include <algorithm>
#include <cmath>

namespace fsdp::optim {

namespace {

constexpr int kSmallestExponent = -1074;  // of the smallest double's single bit
constexpr int kMantissaBits = 53;

}  // namespace

void ExactSum::add(double term) {
  if (!std::isfinite(term)) {
    special_ += term;
    return;
  }
  if (term == 0) return;
  int exponent = 0;
  const auto mantissa = static_cast<uint64_t>(std::ldexp(std::frexp(term, &exponent), kMantissaBits));
  // A denormal term has fewer bits: its integer begins below the smallest position.
  int position = exponent - kMantissaBits - kSmallestExponent;
  const uint64_t integer = position < 0 ? mantissa >> -position : mantissa;
  if (position < 0) position = 0;
  const auto wide = static_cast<unsigned __int128>(integer) << (position % 32);
  const int limb = position / 32;
  for (int i = 0; i < 3; ++i) limbs_[limb + i] += static_cast<int64_t>(static_cast<uint32_t>(wide >> (32 * i)));
}

void ExactSum::add(const ExactSum& other) {
  for (int i = 0; i < kLimbs; ++i) limbs_[i] += other.limbs_[i];
  special_ += other.special_;
  carry();
}

void ExactSum::carry() {
  for (int i = 0; i + 1 < kLimbs; ++i) {
    limbs_[i + 1] += limbs_[i] >> 32;
    limbs_[i] &= 0xffffffff;
  }
}

double ExactSum::value() const {
  if (special_ != 0) return special_;
  ExactSum sum = *this;
  sum.carry();
  int top = kLimbs - 1;
  while (top > 0 && sum.limbs_[top] == 0) --top;
  // The three highest limbs hold at least 65 significant bits; whether anything follows decides a tie.
  const int low = std::max(top - 2, 0);
  unsigned __int128 integer = 0;
  for (int i = top; i >= low; --i) integer = integer << 32 | static_cast<uint32_t>(sum.limbs_[i]);
  bool lost = std::any_of(sum.limbs_.begin(), sum.limbs_.begin() + low, [](int64_t limb) { return limb != 0; });
  int exponent = 32 * low + kSmallestExponent;
  for (; integer >> 63 != 0; integer >>= 1, ++exponent) lost |= (integer & 1) != 0;
  // Below 2^63 there are at least ten bits to spare under a double's 53, so the last may stand for what was lost.
  return std::ldexp(static_cast<double>(static_cast<uint64_t>(integer) | static_cast<uint64_t>(lost)), exponent);
}

ExactSum ExactSum::from(const Limbs& limbs, double special) {
  ExactSum sum;
  sum.limbs_ = limbs;
  sum.special_ = special;
  sum.carry();
  return sum;
}

}  // namespace fsdp::optim
