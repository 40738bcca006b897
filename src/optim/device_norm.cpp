#include "optim/device_norm.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_norm.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "optim/device_exact_sum.h"

namespace fsdp::optim {

namespace {

using torch::Tensor;
using Pieces = std::vector<Tensor>;

constexpr int64_t kBlock = 64, kLanes = 8;          // as norm.cpp's
constexpr int64_t kChunkNumel = int64_t{1} << 25;   // at once, so that the tensors made on the way stay small
constexpr int64_t kCopiedNumel = int64_t{1} << 22;  // shorter runs are copied together: a copy costs less than kernels

int64_t whole_blocks(int64_t numel) { return (numel + kBlock - 1) / kBlock; }

bool follows(const Tensor& run, const Tensor& piece) {
  return run.is_alias_of(piece) && run.numel() % kBlock == 0 &&
         run.storage_offset() + run.numel() == piece.storage_offset();
}

// Returns the pieces. Pieces that lie one behind the other become one.
Pieces runs_of(const Pieces& pieces) {
  Pieces runs;
  for (const Tensor& piece : pieces) {
    if (piece.numel() == 0) continue;
    if (!runs.empty() && follows(runs.back(), piece)) {
      runs.back() = runs.back().as_strided({runs.back().numel() + piece.numel()}, {1});
    } else {
      runs.push_back(piece);
    }
  }
  return runs;
}

// Copies the parts, each to a block's start. The zeros between them add nothing.
Tensor copied_together(const Pieces& parts) {
  std::vector<int64_t> offsets;
  int64_t blocks = 0;
  for (const Tensor& part : parts) {
    offsets.push_back(blocks * kBlock);
    blocks += whole_blocks(part.numel());
  }
  Tensor together = torch::zeros({blocks * kBlock}, parts[0].options());
  Pieces places;
  for (size_t i = 0; i < parts.size(); ++i) places.push_back(together.narrow(0, offsets[i], parts[i].numel()));
  at::_foreach_copy_(places, parts);
  return together;
}

// The runs' elements in tensors of whole blocks, of at most kChunkNumel each.
Pieces blocks_of(const Pieces& runs) {
  Pieces all, short_ones;
  int64_t numel = 0;
  const auto copy = [&] {
    if (!short_ones.empty()) all.push_back(copied_together(std::exchange(short_ones, {})));
    numel = 0;
  };
  for (const Tensor& run : runs) {
    for (const Tensor& part : run.split(kChunkNumel)) {
      const int64_t whole = part.numel() / kBlock * kBlock;
      const bool is_long = whole >= kCopiedNumel;
      if (is_long) all.push_back(part.narrow(0, 0, whole));
      const Tensor rest = is_long ? part.narrow(0, whole, part.numel() - whole) : part;
      if (rest.numel() == 0) continue;
      if (numel + rest.numel() > kChunkNumel) copy();
      short_ones.push_back(rest);
      numel += whole_blocks(rest.numel()) * kBlock;
    }
  }
  copy();
  return all;
}

// Element i of a block goes to lane i % kLanes. A square of a float is exact in double.
void add_lanes(const Tensor& elements, const Tensor& lanes, double norm_type) {
  const Tensor rows = elements.view({-1, kBlock / kLanes, kLanes});
  for (int64_t i = 0; i < rows.size(1); ++i) {
    const Tensor row = rows.select(1, i);
    norm_type == 2.0 ? lanes.addcmul_(row, row) : lanes.add_(row.to(torch::kFloat64).abs_().pow_(norm_type));
  }
}

// [blocks] of double: the lanes of each are added in order.
Tensor block_sums(const Pieces& chunk, double norm_type) {
  int64_t blocks = 0;
  for (const Tensor& part : chunk) blocks += part.numel() / kBlock;
  const Tensor lanes = torch::zeros({blocks, kLanes}, chunk[0].options().dtype(torch::kFloat64));
  int64_t begin = 0;
  for (const Tensor& part : chunk) {
    const int64_t count = part.numel() / kBlock;
    add_lanes(part, lanes.narrow(0, begin, count), norm_type);
    begin += count;
  }
  Tensor sums = lanes.select(1, 0).clone();
  for (int64_t lane = 1; lane < kLanes; ++lane) sums.add_(lanes.select(1, lane));
  return sums;
}

Tensor words_of(const Tensor& limbs, const Tensor& special, const Tensor& largest) {
  return torch::cat({limbs, special.view({1}).view(torch::kInt64), largest.view({1}).view(torch::kInt64)});
}

Tensor limbs_of(const Tensor& words) { return words.narrow(-1, 0, ExactSum::kLimbs); }
Tensor special_of(const Tensor& words) { return words.select(-1, NormSum::kSpecialWord).view(torch::kFloat64); }
Tensor largest_of(const Tensor& words) { return words.select(-1, NormSum::kLargestWord).view(torch::kFloat64); }

Tensor largest(const Pieces& pieces) {
  Pieces some;
  std::ranges::copy_if(pieces, std::back_inserter(some), [](const Tensor& piece) { return piece.numel() > 0; });
  if (some.empty()) return torch::zeros({}, pieces[0].options().dtype(torch::kFloat64));
  const auto infinity = std::numeric_limits<double>::infinity();
  return torch::stack(at::_foreach_norm(some, infinity)).max().to(torch::kFloat64);
}

}  // namespace

Tensor norm_words(const Pieces& pieces, double norm_type) {
  const auto options = pieces.at(0).options();
  const Tensor zero = torch::zeros({}, options.dtype(torch::kFloat64));
  if (std::isinf(norm_type)) {
    return words_of(torch::zeros({ExactSum::kLimbs}, options.dtype(torch::kInt64)), zero, largest(pieces));
  }
  DeviceExactSum sum(options.device());
  Pieces chunk;
  int64_t numel = 0;
  const auto add = [&] {
    if (!chunk.empty()) sum.add(block_sums(std::exchange(chunk, {}), norm_type));
    numel = 0;
  };
  for (const Tensor& blocks : blocks_of(runs_of(pieces))) {
    if (numel + blocks.numel() > kChunkNumel) add();
    chunk.push_back(blocks);
    numel += blocks.numel();
  }
  add();
  return words_of(sum.limbs(), sum.special(), zero);
}

Tensor add_norm_words(const Pieces& sums) {
  if (sums.size() == 1) return sums[0];
  const Tensor all = torch::stack(sums);
  return words_of(limbs_of(all).sum(0), special_of(all).sum(0), largest_of(all).amax(0));
}

Tensor norm_of_words(const Tensor& words, double norm_type) {
  if (std::isinf(norm_type)) return largest_of(words).clone();
  const Tensor sum = exact_value(limbs_of(words), special_of(words));
  return norm_type == 2.0 ? sum.sqrt() : sum.pow(1.0 / norm_type);
}

}  // namespace fsdp::optim
