#include "api/tensor_parallel/column_product.h"

#include <vector>

#include "api/tensor_parallel/held_value.h"
#include "api/tensor_parallel/matrices.h"
#include "api/tensor_parallel/part_sum.h"
#include "base/error.h"
#include "interpose/composed_operator.h"

namespace fsdp {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Tensors = std::vector<Tensor>;

Tensor rows_of(const Tensor& tensor, const layout::Range& rows) { return tensor.narrow(0, rows.begin, rows.numel()); }

Tensor beside_each_other(const Tensors& columns) { return columns.size() == 1 ? columns[0] : torch::cat(columns, 1); }

// The columns of `features` that belong to each part of each block: [block][part].
std::vector<Tensors> columns_of_parts(const Tensor& features, const ColumnDivision& division) {
  std::vector<Tensors> columns;
  int64_t next = 0;
  for (const BlockDivision& block : division.blocks) {
    Tensors& of_block = columns.emplace_back();
    for (int part = 0; part < block.parts.count; ++part, next += block.part_rows)
      of_block.push_back(own_matrix(features.narrow(1, next, block.part_rows)));
  }
  return columns;
}

// Each part's gradient of the input: one product over its rows of all blocks.
Tensors input_gradients(const std::vector<Tensors>& gradients, const Tensor& weight, const ColumnDivision& division) {
  Tensors of_parts;
  for (int part = 0; part < division.parts.count; ++part) {
    Tensors columns, rows;
    for (size_t block = 0; block < division.blocks.size(); ++block) {
      columns.push_back(gradients[block][static_cast<size_t>(part)]);
      rows.push_back(rows_of(weight, division.blocks[block].rows_of_part(part)));
    }
    of_parts.push_back(beside_each_other(columns).mm(rows.size() == 1 ? own_matrix(rows[0]) : torch::cat(rows)));
  }
  return of_parts;
}

// Adds up the parts that share rows, in order, on all of the ranks that hold them, and writes the sums.
void write_shared_sums(const Tensor& to, const Tensors& of_own_parts, const BlockDivision& block, const World& axis) {
  const bool all_here = block.parts.count % block.sharers == 0;
  const Tensors parts = all_here ? of_own_parts : all_parts(of_own_parts, axis);
  const int first = all_here ? 0 : block.parts.first;
  for (int part = 0; part < block.parts.count;) {
    const int group = (first + part) / block.sharers * block.sharers;
    const auto begin = parts.begin() + group;
    rows_of(to, block.rows_of_part(part)).copy_(added_in_order({begin, begin + block.sharers}));
    part = group + block.sharers - first;
  }
}

// `of_part(i)` is a part's gradient of its rows of a weight or a bias.
template <typename OfPart>
void write_block(const Tensor& to, const BlockDivision& block, const World& axis, const OfPart& of_part) {
  Tensors parts;
  for (int part = 0; part < block.parts.count; ++part) parts.push_back(of_part(part));
  write_shared_sums(to, parts, block, axis);
}

void write_weight_gradient(const Tensor& to, const std::vector<Tensors>& gradients, const Tensor& rows,
                           const ColumnProductCall& call) {
  for (size_t i = 0; i < call.division.blocks.size(); ++i) {
    const BlockDivision& block = call.division.blocks[i];
    const auto gradient_of = [&](int part) { return gradients[i][static_cast<size_t>(part)].t(); };
    if (block.sharers > 1) {
      write_block(to, block, call.axis, [&](int part) { return gradient_of(part).mm(rows); });
      continue;
    }
    for (int part = 0; part < block.parts.count; ++part)
      write_product(rows_of(to, block.rows_of_part(part)), gradient_of(part), rows);
  }
}

Tensor bias_gradient(const std::vector<Tensors>& gradients, const ColumnProductCall& call) {
  Tensor sums = torch::empty({call.division.rows()}, gradients[0][0].options());
  for (size_t i = 0; i < call.division.blocks.size(); ++i)
    write_block(sums, call.division.blocks[i], call.axis,
                [&](int part) { return gradients[i][static_cast<size_t>(part)].sum(0); });
  return sums;
}

struct ColumnProduct : torch::autograd::Function<ColumnProduct> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                        const std::optional<Tensor>& bias, const ColumnProductCall& call) {
    context->save_for_backward({input, weight});
    context->saved_data["bias"] = bias.has_value();
    HeldValue<ColumnProductCall>::put(context, call);
    // Below the layer that makes views known to autograd, which forbids to modify a view that comes out of here.
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor whole = call.sequence_parallel ? whole_sequence(input, call.axis) : input;
    const Tensor rows = own_rows(whole);
    Tensors columns;
    for (const BlockDivision& block : call.division.blocks) {
      for (int part = 0; part < block.parts.count; ++part) {
        const layout::Range own = block.rows_of_part(part);
        columns.push_back(rows.mm(own_matrix(rows_of(weight, own)).t()));
        if (bias) columns.back().add_(rows_of(*bias, own));
      }
    }
    std::vector<int64_t> sizes = whole.sizes().vec();
    sizes.back() = call.division.features();
    return beside_each_other(columns).view(sizes);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    FSDP_CHECK(!torch::GradMode::is_enabled(),
               "ColumnParallelLinear: found a backward with create_graph, expected one without: it has no second "
               "derivative. Use torch::nn::Linear.");
    const variable_list saved = context->get_saved_variables();
    const Tensor &input = saved[0], &weight = saved[1];
    const ColumnProductCall call = HeldValue<ColumnProductCall>::get(context);
    const interpose::ComposedOperator operation("fsdp::column_parallel_linear_backward", {&input, &weight});
    const auto of_parts = columns_of_parts(gradients[0].reshape({-1, gradients[0].size(-1)}), call.division);
    Tensor of_input, of_weight, of_bias;
    if (context->needs_input_grad(0)) of_input = input_gradient(of_parts, input, weight, call);
    if (context->needs_input_grad(1)) {
      of_weight = place_of_gradient(weight);
      const Tensor whole = call.sequence_parallel ? whole_sequence(input, call.axis) : input;
      write_weight_gradient(of_weight, of_parts, own_rows(whole), call);
    }
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2)) of_bias = bias_gradient(of_parts, call);
    return {of_input, of_weight, of_bias, Tensor()};
  }

 private:
  static Tensor input_gradient(const std::vector<Tensors>& gradients, const Tensor& input, const Tensor& weight,
                               const ColumnProductCall& call) {
    Tensors of_parts = input_gradients(gradients, weight, call.division);
    if (!call.sequence_parallel) return sum_over_parts(of_parts, call.axis).view(input.sizes());
    std::vector<int64_t> sizes = input.sizes().vec();
    sizes[1] *= call.axis.size();
    for (Tensor& part : of_parts) part = part.view(sizes);
    return slice_of_sum(of_parts, call.axis, 1);
  }
};

}  // namespace

Tensor column_product(const Tensor& input, const Tensor& weight, const Tensor& bias, const ColumnProductCall& call) {
  const interpose::ComposedOperator operation("fsdp::column_parallel_linear", {&input, &weight, &bias});
  return ColumnProduct::apply(input, weight, bias.defined() ? std::optional(bias) : std::nullopt, call);
}

}  // namespace fsdp
