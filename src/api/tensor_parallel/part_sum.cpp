#include "api/tensor_parallel/part_sum.h"

#include "api/logit_passes.h"
#include "base/error.h"

namespace fsdp {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

namespace {

void append_rows(Tensors& to, const Tensor& rows) {
  for (const Tensor& row : rows.unbind(0)) to.push_back(row);
}

// The ranks' own sums are in rank order on the CPU, in fp32.
bool is_sum_of_ranks(const Tensors& own) {
  return own.size() == 1 && own[0].device().is_cpu() && own[0].scalar_type() == dtype_of_sums(own[0]);
}

// Other sizes could be broadcast to these.
void check_same_shape(const Tensors& of_ranks, const Tensor& own) {
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    FSDP_CHECK(of_ranks[rank].sizes() == own.sizes(),
               "A divided layer: rank {} of the axis has a slice of shape [{}] of each sum, and this rank one of [{}], "
               "expected the same. Give all ranks of the axis the same data.",
               rank, fmt::join(of_ranks[rank].sizes().slice(1), ", "), fmt::join(own.sizes().slice(1), ", "));
  }
}

}  // namespace

Tensor added_in_order(const Tensors& parts) {
  if (parts.size() == 1) return parts[0];
  Tensor sum = torch::add(parts[0].to(dtype_of_sums(parts[0])), parts[1]);
  for (size_t i = 2; i < parts.size(); ++i) sum.add_(parts[i]);
  return sum.to(parts[0].scalar_type());
}

Tensors all_parts(const Tensors& own, World axis) {
  if (axis.size() == 1) return own;
  Tensors parts;
  for (const Tensor& of_rank : axis.all_gather(torch::stack(own))) append_rows(parts, of_rank);
  return parts;
}

Tensor slice_of_sum(const Tensors& own, World axis, int64_t dim) {
  if (axis.size() == 1) return added_in_order(own);
  const int64_t length = own[0].size(dim) / axis.size();
  Tensors to_ranks, parts;
  for (int64_t rank = 0; rank < axis.size(); ++rank) {
    Tensors slices;
    for (const Tensor& part : own) slices.push_back(part.narrow(dim, rank * length, length));
    to_ranks.push_back(torch::stack(slices));
  }
  const Tensors of_ranks = axis.all_to_all(to_ranks);
  check_same_shape(of_ranks, to_ranks[0]);
  for (const Tensor& of_rank : of_ranks) append_rows(parts, of_rank);
  return added_in_order(parts);
}

Tensor sum_over_parts(const Tensors& own, World axis) {
  if (axis.size() == 1) return added_in_order(own);
  if (is_sum_of_ranks(own)) {
    Tensor sum = own[0].contiguous();
    axis.all_reduce_(sum);
    return sum;
  }
  const int64_t numel = own[0].numel(), ranks = axis.size(), padding = (ranks - numel % ranks) % ranks;
  Tensors flat;
  for (const Tensor& part : own) flat.push_back(torch::constant_pad_nd(part.reshape({-1}), {0, padding}));
  const Tensor sum = torch::cat(axis.all_gather(slice_of_sum(flat, axis, 0)));
  return sum.narrow(0, 0, numel).view(own[0].sizes());
}

Tensor whole_sequence(const Tensor& slice, World axis) {
  return axis.size() == 1 ? slice : torch::cat(axis.all_gather(slice), 1);
}

}  // namespace fsdp
