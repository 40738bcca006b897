#include "models/operators.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <utility>

#include "models/bert_operators.h"
#include "models/graph_builder.h"
#include "models/layer_operators.h"
#include "models/norm_operators.h"
#include "plan/logit_chunks.h"

namespace models {

using fsdp::plan::Graph;
using fsdp::plan::Kernel;
using fsdp::plan::OperatorKind;

namespace {

using Number = GraphBuilder::Number;

constexpr double kLossFlops = 3;  // per logit, about

Number numbers(GraphBuilder& graph, const std::string& name, int64_t count) {
  return graph.data(name, kIntegerBytes * count);
}

Graph embedding_graph(const ModelConfig& config, const MicroBatchSizes& micro_batch) {
  GraphBuilder graph(config, micro_batch);
  const RankSizes& sizes = graph.sizes();
  const Number tokens = graph.input("tokens", kIntegerBytes * sizes.rows, 0);
  const Number x =
      graph.behind_rows("tokens", graph.lookup("token_embedding", tokens, sizes.slice_rows, sizes.vocabulary));
  if (config.family == Family::Llama) return graph.finish(x);
  const Number positions =
      graph.lookup("position_embedding", numbers(graph, "positions", sizes.length), sizes.length, config.context);
  return graph.finish(
      graph.dropout("embedding_dropout", graph.sum("embedding.sum", x, positions), config.embedding_dropout));
}

Graph norm_graph(const ModelConfig& config, const MicroBatchSizes& micro_batch) {
  GraphBuilder graph(config, micro_batch);
  const RankSizes& sizes = graph.sizes();
  const int64_t bytes = sizes.slice_rows * sizes.width * sizes.element;
  return graph.finish(add_norm(graph, "norm", graph.input("x", bytes, bytes)));
}

int64_t entries_of_part(const GraphBuilder& graph, int64_t part) {
  const int64_t entries = graph.sizes().vocabulary, parts = graph.sizes().parts;
  return entries / parts + (part < entries % parts ? 1 : 0);
}

fsdp::plan::LogitSizes logit_sizes(const GraphBuilder& graph, int64_t part) {
  const MicroBatchSizes& micro_batch = graph.micro_batch();
  const bool has_kernels = !micro_batch.on_gpus && !micro_batch.is_fp16;  // that need no memory of their own
  return {.rows = std::max<int64_t>(graph.sizes().rows, 1),
          .vocabulary = entries_of_part(graph, part),
          .bytes_of_logit = graph.sizes().element,
          .bytes_beside = has_kernels ? 0 : kFloatBytes,
          .room = micro_batch.on_gpus ? kGpuLogitBytes : kLogitBytes,
          .on_cpu = !micro_batch.on_gpus};
}

// Each part has a room of its own.
int64_t kept_columns_of_parts(const GraphBuilder& graph) {
  int64_t columns = 0;
  for (int64_t part = 0; part < graph.sizes().parts; ++part)
    columns += fsdp::plan::kept_logit_columns(logit_sizes(graph, part));
  return columns;
}

// The gradient of the features is added up in fp32; a CPU casts each term before it adds.
int64_t bytes_beside_feature_gradient(const GraphBuilder& graph) {
  if (graph.sizes().element == kFloatBytes) return 0;
  const int64_t sum_bytes = graph.sizes().rows * graph.sizes().width * kFloatBytes;
  return graph.micro_batch().on_gpus ? sum_bytes : 2 * sum_bytes;
}

// fsdp::linear_cross_entropy.
Graph head_graph(const ModelConfig& config, const MicroBatchSizes& micro_batch) {
  GraphBuilder graph(config, micro_batch);
  const RankSizes& sizes = graph.sizes();
  const int64_t rows = sizes.rows, entries = sizes.vocabulary, width = sizes.width, element = sizes.element;
  const int64_t feature_bytes = rows * width * element, logit_bytes = rows * entries * element;
  const Number x = graph.input("features", feature_bytes, feature_bytes);
  const Number targets = numbers(graph, "targets", rows);
  const Number largest = graph.data("loss.largest", kFloatBytes * rows);
  const Number sums = graph.data("loss.sums", kFloatBytes * rows);
  const int64_t kept_columns = micro_batch.evaluates ? 0 : kept_columns_of_parts(graph);
  const int64_t chunk_bytes = rows * fsdp::plan::logit_chunks(logit_sizes(graph, 0)).columns * element;
  const Number logits = graph.data("loss.logits", rows * kept_columns * element);
  graph.tensor(logits).stays_in_memory = true;
  const Number losses = graph.result("loss.rows", kFloatBytes * rows);
  Kernel again = product_kernel(rows, entries - kept_columns, width, 1, element);
  again.is_again = true;
  const double flops = kLossFlops * static_cast<double>(rows * entries);
  graph.add({.name = "loss",
             .kind = OperatorKind::Loss,
             .reads = {x, targets},
             .writes = {largest, sums, logits, losses},
             .keeps = {x, targets, largest, sums, logits},
             .parameter_bytes = entries * width * element,
             .forward_bytes = kept_columns < entries ? chunk_bytes : 0,
             .backward_bytes = bytes_beside_feature_gradient(graph),
             .forward = {product_kernel(rows, entries, width, 1, element), pass_kernel(flops, logit_bytes, 0)},
             .input_gradient = {again, pass_kernel(flops, logit_bytes, logit_bytes),
                                product_kernel(rows, width, entries, 1, element)},
             .weight_gradient = {product_kernel(entries, width, rows, 1, element)}});
  const Number count = numbers(graph, "loss.count", 1);
  const Number mean = graph.result("loss.mean", kFloatBytes);
  graph.add({.name = "loss.mean", .reads = {losses}, .writes = {count, mean}, .keeps = {count}});
  return graph.finish(mean);
}

// All bytes of a model's activations are counted in 64 bits. A layer has fewer than kWideTensors tensors as wide as its
// widest, and kScoreTensors of scores.
void check_bytes(const ModelConfig& config, const MicroBatchSizes& sizes) {
  constexpr double kMostBytes = 4e18, kElement = 8, kWideTensors = 64, kScoreTensors = 8;
  const auto length = static_cast<double>(sizes.length > 0 ? sizes.length : config.context);
  const double tokens = static_cast<double>(sizes.batch) * length, layers = static_cast<double>(config.layers);
  const auto heads = static_cast<double>(config.heads);
  const double widest = std::max({static_cast<double>(config.width), static_cast<double>(config.mlp_width_or_default()),
                                  heads * static_cast<double>(config.head_width_or_default())});
  const double bytes = tokens * kElement *
                       (kWideTensors * layers * widest + kScoreTensors * layers * heads * length +
                        kScoreTensors * static_cast<double>(config.vocabulary));
  if (bytes <= kMostBytes) return;
  throw fsdp::Error(
      fmt::format("found a micro-batch of {} sequences of {:.15g} tokens in {} layers of width {:.15g}, "
                  "whose activations may not fit in 64 bits. Use a smaller --batch or --sequence.",
                  sizes.batch, length, config.layers, widest));
}

}  // namespace

Graph layer_graph(const ModelConfig& config, const MicroBatchSizes& sizes) {
  switch (config.family) {
    case Family::Gpt2:
      return gpt2_layer_graph(config, sizes);
    case Family::Bert:
      return bert_layer_graph(config, sizes);
    default:
      return llama_layer_graph(config, sizes);
  }
}

fsdp::plan::ModelGraphs model_graphs(const ModelConfig& config, const MicroBatchSizes& sizes) {
  check_bytes(config, sizes);
  if (config.family == Family::Bert) {
    return {.embedding = bert_embedding_graph(config, sizes),
            .layer = layer_graph(config, sizes),
            .norm = bert_transform_graph(config, sizes),
            .head = head_graph(config, sizes)};
  }
  return {.embedding = embedding_graph(config, sizes),
          .layer = layer_graph(config, sizes),
          .norm = norm_graph(config, sizes),
          .head = head_graph(config, sizes)};
}

}  // namespace models
