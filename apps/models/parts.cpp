#include "models/parts.h"

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace models {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Pieces in memory of their own. A view would let kernels see another stride or alignment for another number of parts.
variable_list cut(const Tensor& whole, int64_t dim, const std::vector<int64_t>& sizes) {
  variable_list pieces;
  int64_t first = 0;
  for (const int64_t size : sizes) {
    pieces.push_back(whole.narrow(dim, first, size).clone(torch::MemoryFormat::Contiguous));
    first += size;
  }
  return pieces;
}

struct Split : torch::autograd::Function<Split> {
  static variable_list forward(AutogradContext* context, const Tensor& whole, int64_t dim,
                               const std::vector<int64_t>& sizes) {
    context->saved_data["dim"] = dim;
    return cut(whole, dim, sizes);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {torch::cat(gradients, context->saved_data["dim"].toInt()), Tensor(), Tensor()};
  }
};

struct Join : torch::autograd::Function<Join> {
  static Tensor forward(AutogradContext* context, torch::TensorList pieces, int64_t dim) {
    std::vector<int64_t> sizes;
    for (const Tensor& piece : pieces) sizes.push_back(piece.size(dim));
    context->saved_data["dim"] = dim;
    context->saved_data["sizes"] = sizes;
    return torch::cat(pieces, dim);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    variable_list pieces =
        cut(gradients[0], context->saved_data["dim"].toInt(), context->saved_data["sizes"].toIntVector());
    pieces.emplace_back();
    return pieces;
  }
};

}  // namespace

RankParts parts_of(const Division& division) {
  if (!division.tensor) return {};
  const int count = division.parts / division.tensor->size();
  return {.first = division.tensor->rank() * count, .count = count};
}

int sequence_ranks(const Division& division) {
  return division.tensor && division.sequence_parallel ? division.tensor->size() : 1;
}

std::vector<Tensor> split(const Tensor& whole, int64_t dim, const std::vector<int64_t>& sizes) {
  if (sizes.size() == 1) return {whole.contiguous()};
  return Split::apply(whole, dim, sizes);
}

Tensor join(const std::vector<Tensor>& pieces, int64_t dim) {
  return pieces.size() == 1 ? pieces[0] : Join::apply(torch::TensorList(pieces), dim);
}

std::vector<Tensor> split_evenly(const Tensor& whole, int64_t dim, const Division& division) {
  const auto count = static_cast<size_t>(parts_of(division).count);
  return split(whole, dim, std::vector<int64_t>(count, whole.size(dim) / static_cast<int64_t>(count)));
}

Tensor padded_sequence(const Tensor& tokens, const Division& division) {
  if (!division.tensor || !division.sequence_parallel) return tokens;
  const int64_t excess = tokens.size(1) % division.parts;
  return excess == 0 ? tokens : torch::constant_pad_nd(tokens, {0, division.parts - excess});
}

}  // namespace models
