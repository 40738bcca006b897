#include "api/head_logits.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace fsdp {

using torch::Tensor;

torch::ScalarType dtype_of_sums(const Tensor& tensor) {
  return tensor.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

namespace {

constexpr int64_t kEvenColumns = 64;  // products are faster by these

// Where sums have another dtype, each logit is there in both for a while.
int64_t columns_of_chunk(const Head& head) {
  const int64_t own_bytes = static_cast<int64_t>(head.hidden.element_size());
  const int64_t sum_bytes = static_cast<int64_t>(c10::elementSize(dtype_of_sums(head.hidden)));
  const int64_t bytes = own_bytes == sum_bytes ? own_bytes : own_bytes + sum_bytes;
  const int64_t columns = head.chunk_bytes / bytes / std::max<int64_t>(head.hidden.size(0), 1);
  return columns < kEvenColumns ? std::max<int64_t>(columns, 1) : columns / kEvenColumns * kEvenColumns;
}

struct Chunk {
  int64_t first, columns;  // of the vocabulary
  Tensor weight;           // their rows of it
  Tensor logits;           // [rows, columns], to be changed at will
  Tensor has_target;       // per row, whether it lies here
  Tensor target_column;    // [rows, 1]; any where it does not
};

Chunk chunk_at(const Head& head, int64_t first, int64_t columns) {
  const Tensor weight = head.weight.narrow(0, first, columns), column = head.targets - first;
  return {.first = first,
          .columns = columns,
          .weight = weight,
          .logits = head.hidden.mm(weight.t()).to(dtype_of_sums(head.hidden)),
          .has_target = column.ge(0).logical_and_(column.lt(columns)),
          .target_column = column.clamp(0, columns - 1).unsqueeze(1)};
}

template <typename Visit>
void for_each_chunk(const Head& head, const Visit& visit) {
  const int64_t vocabulary = head.weight.size(0), columns = columns_of_chunk(head);
  for (int64_t first = 0; first < vocabulary; first += columns) {
    visit(chunk_at(head, first, std::min(columns, vocabulary - first)));
  }
}

// A product has the dtype of its factors.
void add_product(const Tensor& sum, const Tensor& left, const Tensor& right) {
  if (sum.dtype() == left.dtype()) {
    sum.addmm_(left, right);
  } else {
    sum.add_(left.mm(right));
  }
}

}  // namespace

RowStatistics row_statistics(const Head& head, bool with_mean) {
  const auto options = head.hidden.options().dtype(dtype_of_sums(head.hidden));
  const int64_t rows = head.hidden.size(0);
  Tensor largest = torch::full({rows}, -std::numeric_limits<double>::infinity(), options);
  Tensor sum = torch::zeros({rows}, options), of_target = torch::zeros({rows}, options);
  Tensor mean = with_mean ? torch::zeros({rows}, options) : Tensor();
  for_each_chunk(head, [&](const Chunk& chunk) {
    const Tensor& logits = chunk.logits;
    of_target = torch::where(chunk.has_target, logits.gather(1, chunk.target_column).squeeze(1), of_target);
    if (with_mean) mean.add_(logits.sum(1));
    const Tensor before = std::exchange(largest, torch::maximum(largest, logits.amax(1)));
    sum.mul_((before - largest).exp_()).add_(logits.sub_(largest.unsqueeze(1)).exp_().sum(1));
  });
  if (with_mean) mean.div_(head.weight.size(0));
  return {.exponentials = {.largest = largest, .sum = sum}, .of_target = of_target, .mean = mean};
}

void write_gradients(const Head& head, const LogitGradient& of_logits, const HeadGradients& into) {
  for_each_chunk(head, [&](Chunk chunk) {
    Tensor& logits = chunk.logits;
    logits.sub_(of_logits.largest.unsqueeze(1)).exp_().mul_(of_logits.factor.unsqueeze(1));
    if (of_logits.everywhere.defined()) logits.add_(of_logits.everywhere.unsqueeze(1));
    logits.scatter_add_(1, chunk.target_column, (of_logits.at_target * chunk.has_target).unsqueeze(1));
    logits = logits.to(head.hidden.scalar_type());  // the others are not needed beside them
    if (into.of_hidden.defined()) add_product(into.of_hidden, logits, chunk.weight);
    if (into.of_weight.defined()) {
      Tensor rows = into.of_weight.narrow(0, chunk.first, chunk.columns);
      at::mm_out(rows, logits.t(), head.hidden);
    }
  });
}

}  // namespace fsdp
