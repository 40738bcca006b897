#include "models/graph_builder.h"

#include <algorithm>
#include <utility>

#include "models/divided_parameters.h"

namespace models {

using fsdp::plan::Kernel;
using fsdp::plan::Operator;
using fsdp::plan::OperatorKind;

namespace {

// Floating-point operations per element, about.
constexpr double kElementwiseFlops = 8;

int64_t divided(int64_t size, int64_t ranks) { return (size + ranks - 1) / ranks; }

int64_t parts_of(const MicroBatchSizes& of) { return std::max(of.tensor_parts, of.tensor_ranks); }

// Parts that share a head use it once each.
int64_t shared_heads(const ModelConfig& config, const MicroBatchSizes& of) {
  const int64_t heads = config.key_value_heads_or_default(), parts = parts_of(of);
  return heads >= parts ? divided(heads, of.tensor_ranks) : parts / of.tensor_ranks;
}

}  // namespace

RankSizes::RankSizes(const ModelConfig& config, const MicroBatchSizes& of)
    : batch(of.batch),
      length(of.length > 0 ? of.length : config.context),
      rows(batch * length),
      slice_rows(of.sequence_parallel ? divided(rows, of.tensor_ranks) : rows),
      width(config.width),
      mlp_width(divided(config.mlp_width_or_default(), of.tensor_ranks)),
      heads(divided(config.heads, of.tensor_ranks)),
      key_value_heads(shared_heads(config, of)),
      head_width(config.head_width_or_default()),
      vocabulary(heads_of({config.vocabulary}, {.parts = parts_of(of), .ranks = of.tensor_ranks})),
      element(of.element_bytes),
      parts(parts_of(of) / of.tensor_ranks) {}

Kernel product_kernel(int64_t m, int64_t n, int64_t k, int64_t batch, int64_t element_bytes) {
  return {.m = m,
          .n = n,
          .k = k,
          .batch = batch,
          .bytes_read = element_bytes * batch * (m * k + k * n),
          .bytes_written = element_bytes * batch * m * n};
}

Kernel pass_kernel(double flops, int64_t bytes_read, int64_t bytes_written) {
  return {.flops = flops, .bytes_read = bytes_read, .bytes_written = bytes_written};
}

GraphBuilder::GraphBuilder(const ModelConfig& config, const MicroBatchSizes& sizes)
    : config_(config), micro_batch_(sizes), sizes_(config, sizes) {}

GraphBuilder::Number GraphBuilder::add_tensor(fsdp::plan::GraphTensor tensor) {
  graph_.tensors.push_back(std::move(tensor));
  return graph_.tensors.size() - 1;
}

GraphBuilder::Number GraphBuilder::input(const std::string& name, int64_t bytes, int64_t gradient_bytes) {
  return graph_.input = add_tensor({.name = name, .bytes = bytes, .gradient_bytes = gradient_bytes});
}

GraphBuilder::Number GraphBuilder::result(const std::string& name, int64_t bytes) {
  return add_tensor({.name = name, .bytes = bytes, .gradient_bytes = bytes});
}

GraphBuilder::Number GraphBuilder::data(const std::string& name, int64_t bytes) {
  return add_tensor({.name = name, .bytes = bytes});
}

std::vector<GraphBuilder::Number> GraphBuilder::views(const std::string& name, Number x, int64_t count) {
  const int64_t bytes = bytes_of(x);
  std::vector<Number> parts;
  for (int64_t part = 0; part < count; ++part)
    parts.push_back(add_tensor({.name = name, .gradient_bytes = bytes / count}));
  add({.name = name, .reads = {x}, .writes = parts, .input_gradient = {pass_kernel(0, 2 * bytes, 2 * bytes)}});
  return parts;
}

fsdp::plan::Graph GraphBuilder::finish(Number output) {
  graph_.output = output;
  return std::move(graph_);
}

GraphBuilder::Number GraphBuilder::linear(const std::string& name, Number x, const Linear& layer) {
  const Number output = product(name, x, layer);
  return config_.lora && config_.lora->is_for(name) ? with_adapter(name, x, output, layer) : output;
}

// AdaptableLinear: output + B(A(dropout(x))) * scale.
GraphBuilder::Number GraphBuilder::with_adapter(const std::string& name, Number x, Number output, const Linear& layer) {
  const std::string adapter = name + ".lora_";
  const int64_t rank = config_.lora->rank;
  const Number narrow =
      product(adapter + "A", dropout(adapter + "dropout", x, config_.lora->dropout), {layer.in, rank});
  const Number scaled = elementwise(adapter + "scale", {product(adapter + "B", narrow, {rank, layer.out})}, {});
  const Number sum = elementwise(adapter + "sum", {output, scaled}, {});
  latest().passes_gradient = true;
  return sum;
}

GraphBuilder::Number GraphBuilder::product(const std::string& name, Number x, const Linear& layer) {
  const auto [in, out, bias] = layer;
  const int64_t rows = sizes_.rows, element = sizes_.element;
  const Number result = activation(name, rows * out);
  Operator linear{.name = name,
                  .kind = OperatorKind::Product,
                  .reads = {x},
                  .writes = {result},
                  .keeps = {x},
                  .kept_for = fsdp::plan::KeptFor::Weight,
                  .parameter_bytes = element * (in * out + (bias ? out : 0)),
                  .bias_bytes = bias ? element * out : 0,
                  .forward = {product_kernel(rows, out, in, 1, element)},
                  .input_gradient = {product_kernel(rows, in, out, 1, element)},
                  .weight_gradient = {product_kernel(out, in, rows, 1, element)}};
  if (bias) {
    const auto additions = static_cast<double>(rows * out);
    linear.forward[0].flops = additions;
    linear.weight_gradient.push_back(pass_kernel(additions, bytes_of(result), out * element));
  }
  add(std::move(linear));
  return result;
}

GraphBuilder::Number GraphBuilder::elementwise(const std::string& name, std::vector<Number> reads,
                                               std::vector<Number> keeps) {
  const int64_t bytes = bytes_of(reads[0]);
  const Number written = result(name, bytes);
  const int64_t elements = bytes / sizes_.element;
  const double flops = kElementwiseFlops * static_cast<double>(elements);
  int64_t bytes_read = 0, bytes_kept = 0, gradient_bytes = 0;
  for (const Number each : reads) {
    bytes_read += bytes_of(each);
    gradient_bytes += graph_.tensors[each].gradient_bytes;
  }
  for (const Number each : keeps) bytes_kept += bytes_of(each);
  add({.name = name,
       .reads = std::move(reads),
       .writes = {written},
       .keeps = std::move(keeps),
       .forward = {pass_kernel(flops, bytes_read, bytes)},
       .input_gradient = {pass_kernel(flops, bytes + bytes_kept, gradient_bytes)}});
  return written;
}

GraphBuilder::Number GraphBuilder::sum(const std::string& name, Number x, Number y) {
  const int64_t bytes = bytes_of(x), elements = bytes / sizes_.element;
  const Number written = result(name, bytes);
  add({.name = name,
       .reads = {x, y},
       .writes = {written},
       .passes_gradient = true,
       .ends_branch = true,
       .forward = {pass_kernel(static_cast<double>(elements), bytes + bytes_of(y), bytes)}});
  return written;
}

GraphBuilder::Number GraphBuilder::dropout(const std::string& name, Number x, double share) {
  if (share == 0 || micro_batch_.evaluates) return x;
  const int64_t bytes = bytes_of(x), numel = bytes / sizes_.element;
  // On CPUs it is a factor for each element, on GPUs a byte.
  const Number mask = data(name + ".mask", micro_batch_.on_gpus ? numel : bytes);
  const Number written = result(name, bytes);
  const auto flops = static_cast<double>(numel);
  add({.name = name,
       .reads = {x},
       .writes = {mask, written},
       .keeps = {mask},
       .draws_random = true,
       .forward = {pass_kernel(flops, bytes, bytes + bytes_of(mask))},
       .input_gradient = {pass_kernel(flops, bytes + bytes_of(mask), bytes)}});
  return written;
}

GraphBuilder::Number GraphBuilder::lookup(const std::string& name, Number tokens, int64_t rows, int64_t entries) {
  const Number result = activation(name, rows * sizes_.width);
  const int64_t bytes = bytes_of(result);
  add({.name = name,
       .kind = OperatorKind::Lookup,
       .reads = {tokens},
       .writes = {result},
       .keeps = {tokens},
       .parameter_bytes = entries * sizes_.width * sizes_.element,
       .forward = {pass_kernel(0, bytes + kIntegerBytes * rows, bytes)},
       .weight_gradient = {pass_kernel(static_cast<double>(rows * sizes_.width), 2 * bytes,
                                       bytes + entries * sizes_.width * sizes_.element)}});
  return result;
}

GraphBuilder::Number GraphBuilder::before_columns(const std::string& name, Number x) {
  if (micro_batch_.tensor_ranks == 1) return x;
  // The backward adds up the ranks' gradients of x. With sequence_parallel the forward joins the ranks' slices; the
  // layer keeps its slice and joins them again.
  add({.name = name + ".input",
       .kind = OperatorKind::Exchange,
       .reads = {x},
       .writes = {},
       .bytes_exchanged = sizes_.rows * sizes_.width * sizes_.element});
  return x;
}

GraphBuilder::Number GraphBuilder::behind_rows(const std::string& name, Number x) {
  if (micro_batch_.tensor_ranks == 1) return x;
  const Number sum = activation(name + ".sum", sizes_.slice_rows * sizes_.width);
  add({.name = name + ".sum",
       .kind = OperatorKind::Exchange,
       .reads = {x},
       .writes = {sum},
       .bytes_exchanged = sizes_.rows * sizes_.width * sizes_.element});
  return sum;
}

}  // namespace models
