#include "models/layer_operators.h"

#include <string>
#include <utility>
#include <vector>

#include "models/attention_operators.h"
#include "models/graph_builder.h"
#include "models/norm_operators.h"

namespace models {

using fsdp::plan::Graph;

namespace {

using Number = GraphBuilder::Number;

Number layer_input(GraphBuilder& graph) {
  const int64_t bytes = graph.sizes().slice_rows * graph.sizes().width * graph.sizes().element;
  return graph.input("x", bytes, bytes);
}

Number gpt2_attention(GraphBuilder& graph, Number x) {
  const RankSizes& sizes = graph.sizes();
  const int64_t of_heads = sizes.heads * sizes.head_width;
  const Number whole = graph.before_columns("attn.c_attn", x);
  const Number projected = graph.linear("attn.c_attn", whole, {sizes.width, 3 * of_heads, true});
  const std::vector<Number> heads = graph.views("attn.heads", projected, 3);
  const Number mixed =
      add_attention(graph, {.queries = heads[0], .keys = heads[1], .values = heads[2], .joined = projected});
  return graph.behind_rows("attn.c_proj", graph.linear("attn.c_proj", mixed, {of_heads, sizes.width, true}));
}

Number gpt2_mlp(GraphBuilder& graph, Number x) {
  const RankSizes& sizes = graph.sizes();
  const Number whole = graph.before_columns("mlp.c_fc", x);
  const Number inner = graph.linear("mlp.c_fc", whole, {sizes.width, sizes.mlp_width, true});
  const Number active = graph.elementwise("mlp.gelu", {inner}, {inner});
  return graph.behind_rows("mlp.c_proj", graph.linear("mlp.c_proj", active, {sizes.mlp_width, sizes.width, true}));
}

// A table of angles, [length, half a head].
Number angles(GraphBuilder& graph, const std::string& name, int64_t element) {
  return graph.data(name, graph.sizes().length * (graph.sizes().head_width / 2) * element);
}

Number angles_of_pass(GraphBuilder& graph, const std::string& name) {
  const Number table = angles(graph, name, kFloatBytes);
  graph.tensor(table).is_common = true;
  return table;
}

// Cosines and sines.
using Angles = std::pair<Number, Number>;

// Each turn casts the angles to the dtype of heads.
Number turned(GraphBuilder& graph, const std::string& name, Number x, Angles of_pass) {
  if (graph.sizes().element != kFloatBytes) {
    of_pass = {angles(graph, name + ".cosines", graph.sizes().element),
               angles(graph, name + ".sines", graph.sizes().element)};
  }
  const Number result = graph.elementwise(name, {x, of_pass.first, of_pass.second}, {of_pass.first, of_pass.second});
  graph.latest().backward_bytes = graph.bytes_of(x);  // halves of it
  return result;
}

Number llama_attention(GraphBuilder& graph, Number x) {
  const RankSizes& sizes = graph.sizes();
  const bool bias = graph.config().attention_bias;
  const int64_t of_heads = sizes.heads * sizes.head_width, of_shared = sizes.key_value_heads * sizes.head_width;
  const Angles of_pass{angles_of_pass(graph, "cosines"), angles_of_pass(graph, "sines")};
  const Number whole = graph.before_columns("self_attn", x);
  const auto projection = [&](const std::string& name, int64_t features) {
    return graph.linear(name, whole, {sizes.width, features, bias});
  };
  const Number queries = turned(graph, "self_attn.queries", projection("self_attn.q_proj", of_heads), of_pass);
  const Number keys = turned(graph, "self_attn.keys", projection("self_attn.k_proj", of_shared), of_pass);
  const Number mixed = add_attention(
      graph, {.queries = queries, .keys = keys, .values = projection("self_attn.v_proj", of_shared), .by_heads = true});
  return graph.behind_rows("self_attn.o_proj", graph.linear("self_attn.o_proj", mixed, {of_heads, sizes.width, bias}));
}

Number llama_mlp(GraphBuilder& graph, Number x) {
  const RankSizes& sizes = graph.sizes();
  const bool bias = graph.config().mlp_bias;
  const Number whole = graph.before_columns("mlp", x);
  const Number gate = graph.linear("mlp.gate_proj", whole, {sizes.width, sizes.mlp_width, bias});
  const Number active = graph.elementwise("mlp.silu", {gate}, {gate});
  const Number up = graph.linear("mlp.up_proj", whole, {sizes.width, sizes.mlp_width, bias});
  const Number product = graph.elementwise("mlp.product", {active, up}, {active, up});
  graph.latest().kept_for = fsdp::plan::KeptFor::Other;
  return graph.behind_rows("mlp.down_proj",
                           graph.linear("mlp.down_proj", product, {sizes.mlp_width, sizes.width, bias}));
}

}  // namespace

Graph gpt2_layer_graph(const ModelConfig& config, const MicroBatchSizes& sizes) {
  GraphBuilder graph(config, sizes);
  const Number x = layer_input(graph);
  const auto dropped = [&](const std::string& name, Number added) {
    return graph.dropout(name, added, config.residual_dropout);
  };
  const Number attended = gpt2_attention(graph, add_norm(graph, "ln_1", x));
  const Number middle = graph.sum("attn.sum", x, dropped("attn.dropout", attended));
  const Number added = gpt2_mlp(graph, add_norm(graph, "ln_2", middle));
  return graph.finish(graph.sum("mlp.sum", middle, dropped("mlp.dropout", added)));
}

Graph llama_layer_graph(const ModelConfig& config, const MicroBatchSizes& sizes) {
  GraphBuilder graph(config, sizes);
  const Number x = layer_input(graph);
  const Number attended = llama_attention(graph, add_norm(graph, "input_layernorm", x));
  const Number middle = graph.sum("self_attn.sum", x, attended);
  const Number added = llama_mlp(graph, add_norm(graph, "post_attention_layernorm", middle));
  return graph.finish(graph.sum("mlp.sum", middle, added));
}

}  // namespace models
