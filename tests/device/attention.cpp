// Attention as GPUs compute it: from the forward to the backward it keeps its inputs, its result and a number per row,
// and no probabilities. (Dao et al. 2022, FlashAttention)
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "device/generator.h"

namespace fsdp::testing::device {

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using MaybeTensor = std::optional<Tensor>;

// The random numbers of the device are those of a forward while it lives.
class AsInForward {
 public:
  AsInForward(const at::Generator& generator, const Tensor& state)
      : generator_(generator), now_(generator.get_state()) {
    generator_.set_state(state);
  }
  ~AsInForward() { generator_.set_state(now_); }
  AsInForward(const AsInForward&) = delete;
  AsInForward& operator=(const AsInForward&) = delete;

 private:
  at::Generator generator_;
  Tensor now_;
};

struct Form {
  double dropout, scale;
  bool causal;
};

// Sums are in fp32, or in fp64 for such inputs.
Tensor widened(const Tensor& x) { return x.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat); }

// Keys or values of shape {batch, their heads, length, width}, one per head of the queries.
Tensor for_heads(const Tensor& x, int64_t heads) { return widened(x).repeat_interleave(heads / x.size(1), 1); }

// {batch, heads, length of the queries, length of the keys}
Tensor scores(const Tensor& query, const Tensor& key, const Form& form) {
  const Tensor all = at::matmul(widened(query), for_heads(key, query.size(1)).transpose(2, 3)) * form.scale;
  if (!form.causal) return all;
  const Tensor hidden = at::ones({query.size(2), key.size(2)}, query.options().dtype(at::kBool)).triu(1);
  return all.masked_fill(hidden, -std::numeric_limits<double>::infinity());
}

Tensor of_key_heads(const Tensor& gradient, const Tensor& key) {
  return gradient.unflatten(1, {key.size(1), -1}).sum(2).to(key.scalar_type());
}

struct FusedAttention : torch::autograd::Function<FusedAttention> {
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& value,
                        double dropout, bool causal, double scale) {
    const Form form{.dropout = dropout, .scale = scale, .causal = causal};
    context->saved_data["form"] = std::tuple(dropout, scale, causal);
    context->saved_data["random"] = default_generator(query.device().index()).get_state();
    const Tensor all = scores(query, key, form);
    const Tensor rows = all.logsumexp(-1);
    const Tensor shares = std::get<0>(at::native_dropout((all - rows.unsqueeze(-1)).exp(), dropout, true));
    const Tensor mixed = at::empty_like(query);  // in the order of the queries, as a GPU's kernel writes it
    mixed.copy_(at::matmul(shares, for_heads(value, query.size(1))));
    context->save_for_backward({query, key, value, mixed, rows});
    return mixed;
  }

  static torch::autograd::variable_list backward(AutogradContext* context, torch::autograd::variable_list gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "attention of the tests' device has no second derivative");
    const auto kept = context->get_saved_variables();
    const Tensor &query = kept[0], &key = kept[1], &value = kept[2], &mixed = kept[3], &rows = kept[4];
    const auto [dropout, scale, causal] = context->saved_data["form"].to<std::tuple<double, double, bool>>();
    const Tensor shares =
        (scores(query, key, {.dropout = dropout, .scale = scale, .causal = causal}) - rows.unsqueeze(-1)).exp();
    const auto [dropped, stays] = [&, dropout = dropout] {
      const AsInForward random(default_generator(query.device().index()), context->saved_data["random"].toTensor());
      return at::native_dropout(shares, dropout, true);
    }();
    const Tensor from = widened(gradients[0]), heads_of_value = for_heads(value, query.size(1));
    const Tensor to_dropped = at::matmul(from, heads_of_value.transpose(2, 3)) * stays / (1 - dropout);
    const Tensor of_rows = (from * widened(mixed)).sum(-1, /*keepdim=*/true);
    const Tensor to_scores = shares * (to_dropped - of_rows) * scale;
    return {at::matmul(to_scores, for_heads(key, query.size(1))).to(query.scalar_type()),
            of_key_heads(at::matmul(to_scores.transpose(2, 3), widened(query)), key),
            of_key_heads(at::matmul(dropped.transpose(2, 3), from), value),
            Tensor(),
            Tensor(),
            Tensor()};
  }
};

// Above autograd. Where a kernel for CPUs has the same memory, it computes, for its bits; masks and unusual shapes keep
// the probabilities.
Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& mask, double dropout,
                 bool causal, std::optional<double> scale, bool grouped) {
  const bool has_mask = mask && mask->defined();
  const bool is_usual = query.dim() == 4 && at::isFloatingType(query.scalar_type()) && query.numel() > 0 &&
                        key.numel() > 0 && key.sizes() == value.sizes() && query.size(3) == key.size(3);
  if (is_usual && dropout == 0 && !grouped && query.scalar_type() != at::kHalf &&
      (!has_mask || mask->scalar_type() != at::kBool)) {
    return std::get<0>(
        at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, causal, mask, scale));
  }
  if (is_usual && !has_mask && dropout < 1) {
    const double width = static_cast<double>(query.size(3));
    return FusedAttention::apply(query, key, value, dropout, causal, scale.value_or(1 / std::sqrt(width)));
  }
  return std::get<0>(
      at::_scaled_dot_product_attention_math(query, key, value, mask, dropout, causal, std::nullopt, scale, grouped));
}

TORCH_LIBRARY_IMPL(aten, AutogradCUDA, library) { library.impl("scaled_dot_product_attention", attention); }

}  // namespace

}  // namespace fsdp::testing::device
