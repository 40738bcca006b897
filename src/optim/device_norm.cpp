#include "optim/device_norm.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace fsdp::optim {

namespace {

using torch::Tensor;

constexpr int64_t kBlock = 64, kLanes = 8;              // as norm.cpp's
constexpr int64_t kChunkNumel = int64_t{1} << 24;       // at once, so that what is made on the way stays small
constexpr int64_t kMantissaBits = 53, kLowest = -1074;  // of a double, and the exponent of the smallest one's bit
constexpr int64_t kLimbMask = 0xffffffff;

// Some pieces' elements, blocks padded with zeros, which add nothing.
std::vector<Tensor> chunks_of(const std::vector<Tensor>& pieces) {
  std::vector<Tensor> chunks, parts;
  int64_t numel = 0;
  const auto finish = [&] {
    if (!parts.empty()) chunks.push_back(torch::cat(std::exchange(parts, {})));
    numel = 0;
  };
  for (const Tensor& piece : pieces) {
    for (const Tensor& part : piece.split(kChunkNumel)) {
      if (part.numel() == 0) continue;
      if (numel + part.numel() > kChunkNumel) finish();
      parts.push_back(torch::constant_pad_nd(part, {0, (kBlock - part.numel() % kBlock) % kBlock}));
      numel += parts.back().numel();
    }
  }
  finish();
  return chunks;
}

// [blocks] of double: element i of a block goes to lane i % kLanes, and the lanes are added in order.
Tensor block_sums(const Tensor& chunk, double norm_type) {
  const Tensor elements = chunk.to(torch::kFloat64);
  const Tensor powers = norm_type == 2.0 ? elements * elements : elements.abs().pow(norm_type);
  const Tensor rows = powers.view({-1, kBlock / kLanes, kLanes});
  Tensor lanes = rows.select(1, 0).clone();
  for (int64_t row = 1; row < rows.size(1); ++row) lanes.add_(rows.select(1, row));
  Tensor sums = lanes.select(1, 0).clone();
  for (int64_t lane = 1; lane < kLanes; ++lane) sums.add_(lanes.select(1, lane));
  return sums;
}

// Adds finite terms to the limbs of an ExactSum. Whole numbers have no order.
void add_terms(Tensor& limbs, const Tensor& terms) {
  const auto [fraction, exponent] = torch::frexp(terms);
  const Tensor mantissa = (fraction * std::ldexp(1.0, kMantissaBits)).to(torch::kInt64);
  const Tensor position = exponent.to(torch::kInt64) - (kMantissaBits + kLowest);
  const Tensor integer = torch::bitwise_right_shift(mantissa, (-position).clamp_min(0));
  const Tensor at = position.clamp_min(0);
  const Tensor limb = torch::bitwise_right_shift(at, 5), shift = torch::bitwise_and(at, 31);
  const Tensor low = torch::bitwise_left_shift(torch::bitwise_and(integer, kLimbMask), shift);
  const Tensor high =
      torch::bitwise_left_shift(torch::bitwise_right_shift(integer, 32), shift) + torch::bitwise_right_shift(low, 32);
  limbs.index_add_(0, limb, torch::bitwise_and(low, kLimbMask));
  limbs.index_add_(0, limb + 1, torch::bitwise_and(high, kLimbMask));
  limbs.index_add_(0, limb + 2, torch::bitwise_right_shift(high, 32));
}

NormSum largest_on_device(const std::vector<Tensor>& pieces, double norm_type) {
  std::vector<Tensor> largest;
  for (const Tensor& piece : pieces) {
    if (piece.numel() > 0) largest.push_back(piece.abs().max());
  }
  NormSum norm(norm_type);
  if (!largest.empty()) norm.largest() = torch::stack(largest).max().item<float>();
  return norm;
}

}  // namespace

NormSum norm_on_device(const std::vector<Tensor>& pieces, double norm_type) {
  if (std::isinf(norm_type)) return largest_on_device(pieces, norm_type);
  NormSum norm(norm_type);
  if (pieces.empty()) return norm;
  const auto options = torch::TensorOptions(pieces[0].device());
  Tensor limbs = torch::zeros({ExactSum::kLimbs}, options.dtype(torch::kInt64));
  Tensor special = torch::zeros({}, options.dtype(torch::kFloat64));
  for (const Tensor& chunk : chunks_of(pieces)) {
    const Tensor sums = block_sums(chunk, norm_type), finite = torch::isfinite(sums);
    special.add_(sums.masked_fill(finite, 0).sum());
    add_terms(limbs, sums.masked_fill(finite.logical_not(), 0));
  }
  const Tensor on_host = limbs.cpu();
  ExactSum::Limbs values;
  std::copy_n(on_host.const_data_ptr<int64_t>(), values.size(), values.begin());
  norm.sum() = ExactSum::from(values, special.item<double>());
  return norm;
}

}  // namespace fsdp::optim
