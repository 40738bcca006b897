#include "models/norm_operators.h"

#include <utility>
#include <vector>

namespace models {

using fsdp::plan::OperatorKind;

namespace {

constexpr double kNormFlops = 8;  // per element, about

// One kernel each for the forward and the backward.
size_t add_fused_norm(GraphBuilder& graph, const std::string& name, size_t x, const std::vector<size_t>& statistics,
                      int64_t parameters) {
  const RankSizes& sizes = graph.sizes();
  const int64_t numel = sizes.slice_rows * sizes.width, bytes = graph.bytes_of(x);
  const size_t result = graph.activation(name, numel);
  std::vector<size_t> kept{x}, written = statistics;
  kept.insert(kept.end(), statistics.begin(), statistics.end());
  written.push_back(result);
  const double flops = kNormFlops * static_cast<double>(numel);
  graph.add({.name = name,
             .kind = OperatorKind::Normalisation,
             .reads = {x},
             .writes = std::move(written),
             .keeps = std::move(kept),
             .parameter_bytes = parameters * sizes.width * sizes.element,
             .bias_bytes = (parameters - 1) * sizes.width * sizes.element,
             .forward = {pass_kernel(flops, bytes, bytes)},
             .input_gradient = {pass_kernel(flops, 2 * bytes, bytes)},
             .weight_gradient = {pass_kernel(flops, 2 * bytes, parameters * sizes.width * sizes.element)}});
  return result;
}

// LibTorch's RMSNorm on CPUs is made of other operators, in fp32.
class ComposedRmsNorm {
 public:
  ComposedRmsNorm(GraphBuilder& graph, std::string name)
      : graph_(graph),
        name_(std::move(name)),
        rows_bytes_(graph.sizes().slice_rows * kFloatBytes),
        bytes_(rows_bytes_ * graph.sizes().width) {}

  size_t cast(const std::string& name, size_t x, int64_t bytes) {
    const size_t result = graph_.result(name_ + name, bytes);
    add(name, {x}, result, {}, 0);
    return result;
  }

  // 1 / sqrt(mean(x^2) + epsilon). The backward makes powers of x.
  size_t rstd(size_t x) {
    const size_t result = graph_.result(name_ + ".rstd", rows_bytes_);
    add(".rstd", {x}, result, {x, result}, 3 * bytes_);
    return result;
  }

  // The gradient of what the product spreads over rows is as large as x before it is summed up.
  size_t scaled(size_t x, size_t rstd) {
    const size_t result = graph_.result(name_ + ".scaled", bytes_);
    add(".scaled", {x, rstd}, result, {x, rstd}, bytes_ - rows_bytes_);
    return result;
  }

  size_t weighted(size_t scaled) {
    const size_t result = graph_.result(name_, bytes_);
    add("", {scaled}, result, {scaled}, bytes_);
    fsdp::plan::Operator& product = graph_.latest();
    product.kept_for = fsdp::plan::KeptFor::Weight;
    product.parameter_bytes = graph_.sizes().width * graph_.sizes().element;
    product.weight_gradient = {pass_kernel(2 * numel(), 2 * bytes_, product.parameter_bytes)};
    return result;
  }

 private:
  double numel() const { return static_cast<double>(bytes_) / kFloatBytes; }

  void add(const std::string& name, std::vector<size_t> reads, size_t result, std::vector<size_t> keeps,
           int64_t backward_bytes) {
    int64_t bytes_read = 0;
    for (const size_t read : reads) bytes_read += graph_.bytes_of(read);
    graph_.add({.name = name_ + name,
                .kind = OperatorKind::Normalisation,
                .reads = std::move(reads),
                .writes = {result},
                .keeps = std::move(keeps),
                .backward_bytes = backward_bytes,
                .forward = {pass_kernel(numel(), bytes_read, graph_.bytes_of(result))},
                .input_gradient = {pass_kernel(numel(), bytes_read + graph_.bytes_of(result), bytes_read)}});
  }

  GraphBuilder& graph_;
  std::string name_;
  int64_t rows_bytes_, bytes_;
};

size_t add_composed_norm(GraphBuilder& graph, const std::string& name, size_t x) {
  const bool is_float = graph.sizes().element == kFloatBytes;
  const int64_t bytes = graph.bytes_of(x);
  ComposedRmsNorm norm(graph, name);
  const size_t values = is_float ? x : norm.cast(".in_float", x, bytes / graph.sizes().element * kFloatBytes);
  const size_t result = norm.weighted(norm.scaled(values, norm.rstd(values)));
  return is_float ? result : norm.cast(".result", result, bytes);
}

}  // namespace

size_t add_norm(GraphBuilder& graph, const std::string& name, size_t x) {
  const int64_t rows = graph.sizes().slice_rows;
  const bool on_gpus = graph.micro_batch().on_gpus;
  if (graph.config().family != Family::Llama) {
    const int64_t statistic = on_gpus ? kFloatBytes : graph.sizes().element;  // CPUs: the dtype of activations
    const size_t mean = graph.data(name + ".mean", rows * statistic),
                 rstd = graph.data(name + ".rstd", rows * statistic);
    return add_fused_norm(graph, name, x, {mean, rstd}, 2);
  }
  return on_gpus ? add_fused_norm(graph, name, x, {graph.data(name + ".rstd", rows * kFloatBytes)}, 1)
                 : add_composed_norm(graph, name, x);
}

}  // namespace models
