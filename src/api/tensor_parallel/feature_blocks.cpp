#include "api/tensor_parallel/feature_blocks.h"

#include "base/error.h"

namespace fsdp {

namespace {

constexpr const char* kLayer = "ColumnParallelLinear";

// Heads that parts can share are whole ones, not single features.
bool can_share(const FeatureBlock& block, int total) { return block.head_size > 1 && total % block.heads == 0; }

BlockDivision divide_block(const FeatureBlock& block, const AxisParts& parts, const World& axis) {
  FSDP_CHECK(block.heads > 0 && block.head_size > 0,
             "{}: found a block of {} heads of {} features, expected 1 or more of each.", kLayer, block.heads,
             block.head_size);
  const bool shared = block.heads % parts.total != 0;
  if (block.head_size == 1) check_divides(kLayer, "features of a block", block.heads, parts, axis);
  FSDP_CHECK(
      !shared || can_share(block, parts.total),
      "{}: found a block of {} heads and {} parts, expected heads that are a multiple or a divisor of {}. Use {} "
      "parts or {} heads.",
      kLayer, block.heads, parts.total, parts.total, block.heads, parts.total);
  BlockDivision division{.part_rows = shared ? block.head_size : block.heads / parts.total * block.head_size,
                         .sharers = shared ? static_cast<int>(parts.total / block.heads) : 1,
                         .parts = parts};
  const int64_t first = parts.first / division.sharers, last = (parts.first + parts.count - 1) / division.sharers;
  division.of_whole = {first * division.part_rows, (last + 1) * division.part_rows};
  return division;
}

}  // namespace

int64_t ColumnDivision::rows() const { return blocks.back().own_first + blocks.back().of_whole.numel(); }

int64_t ColumnDivision::features() const {
  int64_t sum = 0;
  for (const BlockDivision& block : blocks) sum += block.features();
  return sum;
}

ColumnDivision divide_columns(int64_t out_features, const World& axis, const TensorParallelOptions& parallel) {
  ColumnDivision division{.blocks = {}, .parts = parts_of(kLayer, axis, parallel.parts)};
  if (parallel.blocks.empty()) check_divides(kLayer, "out_features", out_features, division.parts, axis);
  const std::vector<FeatureBlock> all{{.heads = out_features}};
  int64_t whole = 0, own = 0;
  for (const FeatureBlock& block : parallel.blocks.empty() ? all : parallel.blocks) {
    BlockDivision one = divide_block(block, division.parts, axis);
    one.own_first = own;
    one.of_whole = {one.of_whole.begin + whole, one.of_whole.end + whole};
    whole += block.heads * block.head_size;
    own += one.of_whole.numel();
    division.blocks.push_back(one);
  }
  FSDP_CHECK(whole == out_features, "{}: found blocks of {} features together, expected {}, which is out_features.",
             kLayer, whole, out_features);
  return division;
}

}  // namespace fsdp
