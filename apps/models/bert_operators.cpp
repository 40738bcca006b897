#include "models/bert_operators.h"

#include <string>

#include "models/attention_operators.h"
#include "models/graph_builder.h"
#include "models/norm_operators.h"

namespace models {

using fsdp::plan::Graph;

namespace {

using Number = GraphBuilder::Number;

constexpr int64_t kKindsOfTokens = 2;  // of the first sentence of a pair, and of the second

Number features_input(GraphBuilder& graph) {
  const int64_t bytes = graph.sizes().slice_rows * graph.sizes().width * graph.sizes().element;
  return graph.input("x", bytes, bytes);
}

Number bert_attention(GraphBuilder& graph, Number x) {
  const RankSizes& sizes = graph.sizes();
  const int64_t of_heads = sizes.heads * sizes.head_width;
  const Number whole = graph.before_columns("attention.self", x);
  const auto projection = [&](const std::string& name) {
    return graph.linear(name, whole, {sizes.width, of_heads, true});
  };
  const Number queries = projection("attention.self.query"), keys = projection("attention.self.key");
  const Number mixed =
      add_attention(graph, {.queries = queries, .keys = keys, .values = projection("attention.self.value")});
  const std::string output = "attention.output.dense";
  return graph.behind_rows(output, graph.linear(output, mixed, {of_heads, sizes.width, true}));
}

Number bert_mlp(GraphBuilder& graph, Number x) {
  const RankSizes& sizes = graph.sizes();
  const Number whole = graph.before_columns("intermediate.dense", x);
  const Number inner = graph.linear("intermediate.dense", whole, {sizes.width, sizes.mlp_width, true});
  const Number active = graph.elementwise("intermediate.gelu", {inner}, {inner});
  return graph.behind_rows("output.dense", graph.linear("output.dense", active, {sizes.mlp_width, sizes.width, true}));
}

}  // namespace

Graph bert_embedding_graph(const ModelConfig& config, const MicroBatchSizes& micro_batch) {
  GraphBuilder graph(config, micro_batch);
  const RankSizes& sizes = graph.sizes();
  const Number tokens = graph.input("tokens", kIntegerBytes * sizes.rows, 0);
  const Number words =
      graph.behind_rows("tokens", graph.lookup("word_embeddings", tokens, sizes.slice_rows, sizes.vocabulary));
  const auto of_length = [&](const char* name, const char* numbers, int64_t entries) {
    return graph.lookup(name, graph.data(numbers, kIntegerBytes * sizes.length), sizes.length, entries);
  };
  const Number kinds = of_length("token_type_embeddings", "token_types", kKindsOfTokens);
  const Number positions = of_length("position_embeddings", "positions", config.context);
  const Number sum = graph.sum("embeddings.sum", graph.sum("embeddings.words_and_types", words, kinds), positions);
  return graph.finish(
      graph.dropout("embeddings.dropout", add_norm(graph, "embeddings.LayerNorm", sum), config.embedding_dropout));
}

Graph bert_layer_graph(const ModelConfig& config, const MicroBatchSizes& micro_batch) {
  GraphBuilder graph(config, micro_batch);
  const Number x = features_input(graph);
  const auto dropped = [&](const std::string& name, Number added) {
    return graph.dropout(name, added, config.residual_dropout);
  };
  const Number attended = dropped("attention.output.dropout", bert_attention(graph, x));
  const Number middle = add_norm(graph, "attention.output.LayerNorm", graph.sum("attention.output.sum", x, attended));
  const Number added = dropped("output.dropout", bert_mlp(graph, middle));
  return graph.finish(add_norm(graph, "output.LayerNorm", graph.sum("output.sum", middle, added)));
}

Graph bert_transform_graph(const ModelConfig& config, const MicroBatchSizes& micro_batch) {
  GraphBuilder graph(config, micro_batch);
  const int64_t width = graph.sizes().width;
  const Number inner = graph.linear("transform.dense", features_input(graph), {width, width, true});
  const Number active = graph.elementwise("transform.gelu", {inner}, {inner});
  return graph.finish(add_norm(graph, "transform.LayerNorm", active));
}

}  // namespace models
