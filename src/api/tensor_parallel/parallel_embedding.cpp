#include <ATen/ops/_assert_async.h>
#include <torch/nn/functional/embedding.h>

#include "api/tensor_parallel/own_part.h"
#include "api/tensor_parallel/parts.h"
#include "base/error.h"
#include "fsdp/collectives.h"
#include "fsdp/tensor_parallel.h"

namespace fsdp {

using torch::Tensor;

namespace {

constexpr const char* kEmbedding = "ParallelEmbedding";

void check_embedding(const torch::nn::EmbeddingOptions& options) {
  FSDP_CHECK(!options.max_norm(),
             "{}: found max_norm, which a divided embedding does not have. Use torch::nn::Embedding.", kEmbedding);
  FSDP_CHECK(
      !options.scale_grad_by_freq() && !options.sparse(),
      "{}: found scale_grad_by_freq or sparse, which a divided embedding does not have. Use torch::nn::Embedding.",
      kEmbedding);
}

layout::Range own_entries(const torch::nn::EmbeddingOptions& options, const World& axis, int parts) {
  const AxisParts own = parts_of(kEmbedding, axis, parts);
  FSDP_CHECK(options.num_embeddings() >= own.total,
             "{}: found {} entries and {} parts, expected an entry for each part.", kEmbedding,
             options.num_embeddings(), own.total);
  return range_of_rank(options.num_embeddings(), own);
}

void check_indices(const Tensor& indices, int64_t entries) {
  const Tensor right = indices.ge(0).logical_and_(indices.lt(entries)).all();
  if (!indices.device().is_cpu()) return at::_assert_async(right);
  FSDP_CHECK(right.item<bool>(), "{}: found indices from {} to {}, expected 0 to {}.", kEmbedding,
             indices.min().item<int64_t>(), indices.max().item<int64_t>(), entries - 1);
}

}  // namespace

ParallelEmbeddingImpl::ParallelEmbeddingImpl(torch::nn::EmbeddingOptions options_, World axis,
                                             TensorParallelOptions parallel)
    : options(std::move(options_)), axis_(std::move(axis)), parallel_(std::move(parallel)) {
  check_not_column(kEmbedding, parallel_);
  check_embedding(options);
  ParallelEmbeddingImpl::reset();
}

void ParallelEmbeddingImpl::reset() {
  const layout::Range own = own_entries(options, axis_, parallel_.parts);
  const torch::nn::EmbeddingImpl whole(options);
  options = whole.options;  // a padding_idx from the end becomes one from the start
  weight = register_parameter("weight", own_part(whole.weight, 0, {own}));
}

// Each entry comes from one rank, and the others add zeros: the sum is exact.
Tensor ParallelEmbeddingImpl::forward(const Tensor& indices) {
  check_indices(indices, options.num_embeddings());
  if (parallel_.sequence_parallel) check_sequence(kEmbedding, indices, axis_.size());
  const layout::Range own = own_entries(options, axis_, parallel_.parts);
  const Tensor elsewhere = indices.lt(own.begin).logical_or_(indices.ge(own.end));
  const int64_t padding = options.padding_idx().value_or(-1);
  auto lookup = torch::nn::functional::EmbeddingFuncOptions();
  if (own.begin <= padding && padding < own.end) lookup.padding_idx(padding - own.begin);
  const Tensor rows =
      torch::nn::functional::embedding((indices - own.begin).masked_fill_(elsewhere, 0), weight, lookup);
  if (axis_.size() == 1) return rows;
  const Tensor part = rows.masked_fill(elsewhere.unsqueeze(-1), 0);
  if (!parallel_.sequence_parallel) return differentiable::all_reduce(part, axis_, differentiable::ResultUse::Alike);
  return differentiable::reduce_scatter(part, axis_, 1);
}

std::vector<ParameterDivision> ParallelEmbeddingImpl::divisions() const {
  return {division_of("weight", {options.num_embeddings(), options.embedding_dim()}, 0,
                      {own_entries(options, axis_, parallel_.parts)})};
}

void ParallelEmbeddingImpl::pretty_print(std::ostream& stream) const {
  stream << "fsdp::ParallelEmbedding(num_embeddings=" << options.num_embeddings()
         << ", embedding_dim=" << options.embedding_dim() << ", entries here=" << weight.size(0) << ")";
}

}  // namespace fsdp
