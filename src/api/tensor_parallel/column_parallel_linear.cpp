#include <algorithm>

#include "api/tensor_parallel/column_product.h"
#include "api/tensor_parallel/matrices.h"
#include "api/tensor_parallel/own_part.h"
#include "fsdp/collectives.h"
#include "fsdp/tensor_parallel.h"

namespace fsdp {

using torch::Tensor;

namespace {

std::vector<layout::Range> ranges_of(const ColumnDivision& division) {
  std::vector<layout::Range> ranges;
  for (const BlockDivision& block : division.blocks) ranges.push_back(block.of_whole);
  return ranges;
}

// The whole features from the outputs of all ranks beside each other. If parts share a head, the first one counts.
Tensor in_whole_order(const Tensor& gathered, const ColumnDivision& division, int ranks) {
  const bool in_order = division.blocks.size() == 1 && division.blocks[0].sharers == 1;
  if (in_order) return gathered;
  const int64_t of_rank = division.features();
  std::vector<Tensor> features;
  int64_t before = 0;  // features of a rank
  for (const BlockDivision& block : division.blocks) {
    for (int part = 0; part < block.parts.total; part += block.sharers) {
      const int rank = part / block.parts.count, own = part % block.parts.count;
      features.push_back(gathered.narrow(-1, rank * of_rank + before + own * block.part_rows, block.part_rows));
    }
    before += block.features();
  }
  FSDP_INVARIANT(before * ranks == gathered.size(-1), "{} features of {} ranks", before, ranks);
  return torch::cat(features, -1);
}

}  // namespace

ColumnParallelLinearImpl::ColumnParallelLinearImpl(const torch::nn::LinearOptions& options_, World axis,
                                                   TensorParallelOptions parallel)
    : options(options_), axis_(std::move(axis)), parallel_(std::move(parallel)) {
  ColumnParallelLinearImpl::reset();
}

void ColumnParallelLinearImpl::reset() {
  const auto ranges = ranges_of(divide_columns(options.out_features(), axis_, parallel_));
  const torch::nn::LinearImpl whole(options);
  weight = register_parameter("weight", own_part(whole.weight, 0, ranges));
  bias = options.bias() ? register_parameter("bias", own_part(whole.bias, 0, ranges))
                        : register_parameter("bias", {}, false);
}

Tensor ColumnParallelLinearImpl::forward(const Tensor& input) {
  const Tensor values = cast_to_unit(input, weight);
  check_input("ColumnParallelLinear", values, options.in_features(), weight, parallel_);
  const ColumnDivision division = divide_columns(options.out_features(), axis_, parallel_);
  const Tensor output = column_product(
      values, weight, bias, {.division = division, .axis = axis_, .sequence_parallel = parallel_.sequence_parallel});
  if (!parallel_.gather_output) return output;
  const Tensor gathered =
      axis_.size() == 1 ? output : differentiable::all_gather(output, axis_, -1, differentiable::ResultUse::Alike);
  return in_whole_order(gathered, division, axis_.size());
}

std::vector<int64_t> ColumnParallelLinearImpl::block_features() const {
  std::vector<int64_t> features;
  for (const BlockDivision& block : divide_columns(options.out_features(), axis_, parallel_).blocks)
    features.push_back(block.features());
  return features;
}

std::vector<ParameterDivision> ColumnParallelLinearImpl::divisions() const {
  const int64_t rows = options.out_features();
  const auto ranges = ranges_of(divide_columns(rows, axis_, parallel_));
  std::vector<ParameterDivision> all{division_of("weight", {rows, options.in_features()}, 0, ranges)};
  if (options.bias()) all.push_back(division_of("bias", {rows}, 0, ranges));
  return all;
}

void ColumnParallelLinearImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "fsdp::ColumnParallelLinear(in_features=" << options.in_features()
         << ", out_features=" << options.out_features() << ", bias=" << options.bias()
         << ", rows here=" << weight.size(0) << ")";
}

}  // namespace fsdp
