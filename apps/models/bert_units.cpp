#include "models/bert_units.h"

namespace models {

namespace {

constexpr int64_t kKindsOfSentences = 2;  // the first of a pair, and the second

// All ranks have all of it.
void add_whole_layer(Parameters& parameters, const std::string& name, int64_t out, int64_t in) {
  parameters.push_back({name + ".weight", {out, in}, ParameterKind::Matrix});
  parameters.push_back({name + ".bias", {out}, ParameterKind::Bias});
}

}  // namespace

Parameters bert_root(const ModelConfig& config) {
  const int64_t width = config.width;
  const std::string embeddings = "bert.embeddings.", predictions = "cls.predictions.";
  Parameters root{token_embedding(config, embeddings + "word_embeddings.weight"),
                  {embeddings + "position_embeddings.weight", {config.context, width}, ParameterKind::Embedding},
                  {embeddings + "token_type_embeddings.weight", {kKindsOfSentences, width}, ParameterKind::Embedding}};
  add_layer_norm(root, embeddings + "LayerNorm", width);
  add_whole_layer(root, "bert.pooler.dense", width, width);
  root.push_back(
      {predictions + "bias", {config.vocabulary}, ParameterKind::Bias, DividedDim{0, {{config.vocabulary}}}});
  add_whole_layer(root, predictions + "transform.dense", width, width);
  add_layer_norm(root, predictions + "transform.LayerNorm", width);
  add_whole_layer(root, "cls.seq_relationship", 2, width);
  return root;
}

Parameters bert_block(const ModelConfig& config, const std::string& name) {
  const int64_t width = config.width, mlp_width = config.mlp_width_or_default();
  const DividedHeads heads{config.heads, config.head_width_or_default()};
  Parameters block;
  for (const char* part : {"query", "key", "value"})
    add_column_layer(block, name + ".attention.self." + part, {heads}, width, true);
  add_row_layer(block, name + ".attention.output.dense", width, heads.heads * heads.head_size, true);
  add_layer_norm(block, name + ".attention.output.LayerNorm", width);
  add_column_layer(block, name + ".intermediate.dense", {{mlp_width}}, width, true);
  add_row_layer(block, name + ".output.dense", width, mlp_width, true);
  add_layer_norm(block, name + ".output.LayerNorm", width);
  return block;
}

}  // namespace models
