// The operators of models in which some parameters are frozen, and layers differ.
#include <algorithm>
#include <map>
#include <utility>

#include "models/operators.h"
#include "plan/frozen_parameters.h"

namespace models {

namespace {

using fsdp::plan::Graph;
using fsdp::plan::ModelGraphs;
using fsdp::plan::TrainedParameters;
using Names = std::set<std::string>;

const std::string kWeight = ".weight", kBias = ".bias", kAdapter = ".lora_A.weight";

bool any_ends_with(const Names& names, const std::string& end) {
  return std::ranges::any_of(names, [&](const std::string& name) { return name.ends_with(end); });
}

// The end of the name of the module that has an operator's parameters, outside of the layers.
std::string module_of(const ModelConfig& config, const std::string& operation) {
  const bool is_gpt2 = config.family == Family::Gpt2, is_bert = config.family == Family::Bert;
  const std::string tokens = is_gpt2 ? "transformer.wte" : is_bert ? "word_embeddings" : "model.embed_tokens";
  if (operation == "token_embedding") return tokens;
  if (operation == "loss") return config.tied_embeddings ? tokens : "lm_head";
  if (operation == "position_embedding") return "transformer.wpe";
  if (operation == "norm") return is_gpt2 ? "transformer.ln_f" : "model.norm";
  return operation;
}

// A layer's parameters by the names of its operators.
struct LayerKind {
  Names adapted, frozen;
  bool input_has_gradient = true;
  auto operator<=>(const LayerKind&) const = default;
};

LayerKind kind_of(const Unit& layer, const Names& frozen, bool input_has_gradient) {
  LayerKind kind{.adapted = {}, .frozen = {}, .input_has_gradient = input_has_gradient};
  const size_t prefix = layer.name.size() + 1;
  for (const Parameter& parameter : layer.parameters) {
    const std::string name = parameter.name.substr(prefix);
    if (name.ends_with(kAdapter)) kind.adapted.insert(name.substr(0, name.size() - kAdapter.size()));
    if (frozen.contains(parameter.name)) kind.frozen.insert(name);
  }
  return kind;
}

Graph graph_of(const LayerKind& kind, ModelConfig config, const MicroBatchSizes& sizes) {
  if (config.lora) config.lora->targets.assign(kind.adapted.begin(), kind.adapted.end());
  return with_frozen_parameters(layer_graph(config, sizes), kind.input_has_gradient, [&](const std::string& name) {
    return TrainedParameters{!kind.frozen.contains(name + kWeight), !kind.frozen.contains(name + kBias)};
  });
}

// One layer after the other, each kind once. Returns whether the last one's output has a gradient.
bool add_layers(ModelGraphs& graphs, const ModelConfig& config, const MicroBatchSizes& sizes, const Names& frozen) {
  bool has_gradient = output_has_gradient(graphs.embedding);
  std::map<LayerKind, size_t> kinds;
  const std::vector<Unit> all = units(config);
  for (size_t layer = 1; layer < all.size(); ++layer) {
    const LayerKind kind = kind_of(all[layer], frozen, has_gradient);
    const auto [place, is_new] = kinds.try_emplace(kind, kinds.size());
    if (is_new) {
      Graph graph = graph_of(kind, config, sizes);
      if (place->second == 0) {
        graphs.layer = std::move(graph);
      } else {
        graphs.other_layers.push_back(std::move(graph));
      }
    }
    graphs.layer_kinds.push_back(place->second);
    has_gradient = output_has_gradient(graphs.graph_of_layer(layer - 1));
  }
  return has_gradient;
}

}  // namespace

ModelGraphs model_graphs(const ModelConfig& config, const MicroBatchSizes& sizes, const Names& frozen) {
  ModelGraphs graphs = model_graphs(config, sizes);
  if (frozen.empty() && !config.lora) return graphs;
  const auto with_frozen = [&](Graph& piece, bool input_has_gradient) {
    piece = with_frozen_parameters(std::move(piece), input_has_gradient, [&](const std::string& name) {
      const std::string module = module_of(config, name);
      return TrainedParameters{!any_ends_with(frozen, module + kWeight), !any_ends_with(frozen, module + kBias)};
    });
  };
  with_frozen(graphs.embedding, false);
  const bool has_gradient = add_layers(graphs, config, sizes, frozen);
  with_frozen(graphs.norm, has_gradient);
  with_frozen(graphs.head, output_has_gradient(graphs.norm));
  return graphs;
}

}  // namespace models
