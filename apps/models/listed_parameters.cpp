#include "models/listed_parameters.h"

namespace models {

namespace {

void add_layer(Parameters& parameters, const std::string& name, int64_t out, int64_t in, bool bias,
               const DividedDim& divided) {
  parameters.push_back({name + ".weight", {out, in}, ParameterKind::Matrix, divided});
  if (!bias) return;
  parameters.push_back({name + ".bias", {out}, ParameterKind::Bias});
  if (divided.dim == 0) parameters.back().divided = divided;
}

}  // namespace

void add_column_layer(Parameters& parameters, const std::string& name, const Heads& out, int64_t in, bool bias) {
  int64_t rows = 0;
  for (const auto& [heads, head_size] : out) rows += heads * head_size;
  add_layer(parameters, name, rows, in, bias, {0, out});
}

void add_row_layer(Parameters& parameters, const std::string& name, int64_t out, int64_t in, bool bias) {
  add_layer(parameters, name, out, in, bias, {1, {{in}}});
}

void add_layer_norm(Parameters& parameters, const std::string& name, int64_t width) {
  parameters.push_back({name + ".weight", {width}, ParameterKind::Norm});
  parameters.push_back({name + ".bias", {width}, ParameterKind::Bias});
}

Parameter token_embedding(const ModelConfig& config, const std::string& name) {
  return {name, {config.vocabulary, config.width}, ParameterKind::Embedding, DividedDim{0, {{config.vocabulary}}}};
}

}  // namespace models
