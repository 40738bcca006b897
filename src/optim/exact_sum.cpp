#include "optim/exact_sum.h"

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
  // From the top, in extended precision: the limbs are unique once carried, so the result is too.
  long double value = 0;
  for (int i = kLimbs - 1; i >= 0; --i) {
    value += std::ldexp(static_cast<long double>(sum.limbs_[i]), 32 * i + kSmallestExponent);
  }
  return static_cast<double>(value);
}

ExactSum ExactSum::from(const Limbs& limbs, double special) {
  ExactSum sum;
  sum.limbs_ = limbs;
  sum.special_ = special;
  sum.carry();
  return sum;
}

}  // namespace fsdp::optim
