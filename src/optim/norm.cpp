#include "optim/norm.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace fsdp::optim {

namespace {

constexpr size_t kBlock = 64;
constexpr size_t kLanes = 8;

// Element i goes to lane i % kLanes; the lanes are added in order. Fixed whatever the vector width.
template <typename Power>
double block_sum(std::span<const float> block, Power power) {
  std::array<double, kLanes> lanes{};
  size_t i = 0;
  for (; i + kLanes <= block.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += power(static_cast<double>(block[i + lane]));
  }
  for (size_t lane = 0; i < block.size(); ++i, ++lane) lanes[lane] += power(static_cast<double>(block[i]));
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b); }

}  // namespace

void NormSum::add(std::span<const float> piece) {
  for (size_t begin = 0; begin < piece.size(); begin += kBlock) {
    const std::span<const float> block = piece.subspan(begin, std::min(kBlock, piece.size() - begin));
    if (std::isinf(norm_type_)) {
      for (float element : block) largest_ = larger(largest_, std::fabs(element));
    } else if (norm_type_ == 2.0) {
      sum_.add(block_sum(block, [](double element) { return element * element; }));
    } else {
      sum_.add(block_sum(block, [&](double element) { return std::pow(std::fabs(element), norm_type_); }));
    }
  }
}

void NormSum::add(const NormSum& other) {
  sum_.add(other.sum_);
  largest_ = larger(largest_, other.largest_);
}

NormSum::Words NormSum::words() const {
  Words words{};
  std::ranges::copy(sum_.limbs(), words.begin());
  words[kSpecialWord] = std::bit_cast<int64_t>(sum_.special());
  words[kLargestWord] = std::bit_cast<int64_t>(largest_);
  return words;
}

void NormSum::add(const Words& words) {
  ExactSum::Limbs limbs;
  std::copy_n(words.begin(), limbs.size(), limbs.begin());
  sum_.add(ExactSum::from(limbs, std::bit_cast<double>(words[kSpecialWord])));
  largest_ = larger(largest_, std::bit_cast<double>(words[kLargestWord]));
}

double NormSum::norm() const {
  if (std::isinf(norm_type_)) return largest_;
  return norm_type_ == 2.0 ? std::sqrt(sum_.value()) : std::pow(sum_.value(), 1.0 / norm_type_);
}

}  // namespace fsdp::optim
