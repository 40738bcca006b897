#include "optim/device_exact_sum.h"

#include <torch/types.h>

#include <cmath>
#include <limits>

namespace fsdp::optim {

namespace {

using torch::Tensor;

constexpr int64_t kLimbs = ExactSum::kLimbs;
constexpr int64_t kMantissaBits = 53, kLowest = -1074;  // of a double, and the exponent of the smallest one's bit
constexpr int64_t kLimbBits = 32, kLimbMask = 0xffffffff;
constexpr int64_t kRows = 4096;  // a power of two

Tensor low_half(const Tensor& limb) { return torch::bitwise_and(limb, kLimbMask); }
Tensor high_half(const Tensor& limb) { return torch::bitwise_right_shift(limb, kLimbBits); }
Tensor places(int64_t count, const Tensor& like) { return torch::arange(count, like.options().dtype(torch::kInt64)); }
// Moves each carry to the next higher place. The highest limb is far above any sum and has no carry.
Tensor moved_up(const Tensor& carries) { return carries.roll(1); }
Tensor with_carries(const Tensor& limbs) { return low_half(limbs) + moved_up(high_half(limbs)); }

// Makes limbs smaller than 2^32. After two carries they are at most 2^32. A limb of 2^32 - 1 then passes on the carry
// from below, so each limb gets the carry of the nearest lower limb with another value.
Tensor with_all_carries(const Tensor& limbs) {
  const Tensor twice = with_carries(with_carries(limbs));
  const Tensor decisive = std::get<0>(torch::cummax(places(kLimbs, limbs) * twice.ne(kLimbMask), 0));
  return low_half(twice + moved_up(high_half(twice).index_select(0, decisive)));
}

// 2^exponent, for the exponents of normal doubles.
Tensor power_of_two(const Tensor& exponent) {
  return torch::bitwise_left_shift(exponent + 1023, kMantissaBits - 1).view(torch::kFloat64);
}

}  // namespace

DeviceExactSum::DeviceExactSum(const torch::Device& device)
    : table_(torch::zeros({kRows * kLimbs}, torch::dtype(torch::kInt64).device(device))),
      special_(torch::zeros({}, torch::dtype(torch::kFloat64).device(device))) {}

void DeviceExactSum::add(const Tensor& terms) {
  const Tensor finite = torch::where(terms.lt(std::numeric_limits<double>::infinity()), terms, 0.0);
  special_.add_((terms - finite).sum());
  const auto [fraction, exponent] = torch::frexp(finite);
  const Tensor mantissa = (fraction * std::ldexp(1.0, kMantissaBits)).to(torch::kInt64);
  const Tensor position = exponent - (kMantissaBits + kLowest), at = position.clamp_min(0);
  const Tensor integer = torch::bitwise_right_shift(mantissa, at - position);
  const Tensor shift = torch::bitwise_and(at, kLimbBits - 1);
  const Tensor low = torch::bitwise_left_shift(low_half(integer), shift);
  const Tensor high = torch::bitwise_left_shift(high_half(integer), shift) + high_half(low);
  const Tensor row = torch::bitwise_and(places(terms.numel(), terms), kRows - 1);
  const Tensor limb = row * kLimbs + torch::bitwise_right_shift(at, 5);
  table_.index_add_(0, limb, low_half(low));
  table_.index_add_(0, limb + 1, low_half(high));
  table_.index_add_(0, limb + 2, high_half(high));
}

Tensor DeviceExactSum::limbs() const { return with_carries(table_.view({kRows, kLimbs}).sum(0)); }

// As ExactSum::value: the three highest limbs, of which `top` is the highest, hold at least 65 significant bits. They
// become 63 bits, the last of which stands for all that is lost below. Two limbs of 0 in front take the place of limbs
// that the lowest ones lack.
Tensor exact_value(const Tensor& limbs, const Tensor& special) {
  const Tensor all = torch::constant_pad_nd(with_all_carries(limbs), {2, 0});
  const Tensor place = places(kLimbs + 2, limbs), is_set = all.ne(0);
  const Tensor top = (place * is_set).max().clamp_min(2);
  const Tensor highest = all.index_select(0, top - places(3, limbs));
  const Tensor first = highest.select(0, 0), second = highest.select(0, 1), third = highest.select(0, 2);
  // 1 to 32, or 0 for 0.
  const Tensor bits = std::get<1>(torch::frexp(first.to(torch::kFloat64))).to(torch::kInt64);
  const Tensor second_twice = torch::bitwise_left_shift(second, -bits + kLimbBits);
  const Tensor kept = torch::bitwise_left_shift(first, -bits + 63) + torch::bitwise_right_shift(second_twice, 1) +
                      torch::bitwise_right_shift(third, bits + 1);
  const Tensor third_lost = torch::bitwise_and(third, torch::bitwise_left_shift(2, bits) - 1);
  const Tensor lost = torch::bitwise_or(torch::bitwise_and(second_twice, 1), third_lost)
                          .ne(0)
                          .logical_or(is_set.logical_and(place.lt(top - 2)).any());
  const Tensor integer = torch::bitwise_or(kept, lost);
  const Tensor exponent = top * kLimbBits + bits + (1 - 4 * kLimbBits + kLowest);
  const Tensor half = torch::bitwise_right_shift(exponent, 1);
  const Tensor value = integer.to(torch::kFloat64) * power_of_two(half) * power_of_two(exponent - half);
  return torch::where(special.ne(0), special, value);
}

}  // namespace fsdp::optim
