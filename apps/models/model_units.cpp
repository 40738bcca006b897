// The parameters of each family by unit, as gpt2.cpp and llama.cpp register them, and what their sizes come to.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "models/bert_units.h"
#include "models/listed_parameters.h"
#include "models/model_config.h"

namespace models {

namespace {

void add_head(Parameters& parameters, const ModelConfig& config) {
  if (!config.tied_embeddings) add_column_layer(parameters, "lm_head", {{config.vocabulary}}, config.width, false);
}

Parameters gpt2_root(const ModelConfig& config) {
  Parameters root{token_embedding(config, "transformer.wte.weight"),
                  {"transformer.wpe.weight", {config.context, config.width}, ParameterKind::Embedding}};
  add_layer_norm(root, "transformer.ln_f", config.width);
  add_head(root, config);
  return root;
}

Parameters gpt2_block(const ModelConfig& config, const std::string& name) {
  const int64_t width = config.width, mlp_width = config.mlp_width_or_default();
  const DividedHeads heads{config.heads, config.head_width_or_default()};
  Parameters block;
  add_layer_norm(block, name + ".ln_1", width);
  add_column_layer(block, name + ".attn.c_attn", {heads, heads, heads}, width, true);
  add_row_layer(block, name + ".attn.c_proj", width, heads.heads * heads.head_size, true);
  add_layer_norm(block, name + ".ln_2", width);
  add_column_layer(block, name + ".mlp.c_fc", {{mlp_width}}, width, true);
  add_row_layer(block, name + ".mlp.c_proj", width, mlp_width, true);
  return block;
}

Parameters llama_root(const ModelConfig& config) {
  Parameters root{token_embedding(config, "model.embed_tokens.weight"),
                  {"model.norm.weight", {config.width}, ParameterKind::Norm}};
  add_head(root, config);
  return root;
}

Parameters llama_block(const ModelConfig& config, const std::string& name) {
  const int64_t width = config.width, mlp_width = config.mlp_width_or_default();
  const int64_t head_width = config.head_width_or_default();
  const DividedHeads queries{config.heads, head_width}, keys{config.key_value_heads_or_default(), head_width};
  Parameters block{{name + ".input_layernorm.weight", {width}, ParameterKind::Norm}};
  add_column_layer(block, name + ".self_attn.q_proj", {queries}, width, config.attention_bias);
  add_column_layer(block, name + ".self_attn.k_proj", {keys}, width, config.attention_bias);
  add_column_layer(block, name + ".self_attn.v_proj", {keys}, width, config.attention_bias);
  add_row_layer(block, name + ".self_attn.o_proj", width, config.heads * head_width, config.attention_bias);
  block.push_back({name + ".post_attention_layernorm.weight", {width}, ParameterKind::Norm});
  add_column_layer(block, name + ".mlp.gate_proj", {{mlp_width}}, width, config.mlp_bias);
  add_column_layer(block, name + ".mlp.up_proj", {{mlp_width}}, width, config.mlp_bias);
  add_row_layer(block, name + ".mlp.down_proj", width, mlp_width, config.mlp_bias);
  return block;
}

// The name of the layer that a matrix is the weight of.
std::string layer_of(const Parameter& matrix) { return matrix.name.substr(0, matrix.name.rfind('.')); }

// As the block has them where layers have adapters: after the layer's own parameters.
Parameters with_adapters(const Lora& lora, const Parameters& block) {
  Parameters all;
  std::optional<Parameter> adapted;  // the weight of the layer that is being passed
  const auto end_layer = [&] {
    if (!adapted) return;
    const std::string layer = layer_of(*adapted);
    all.push_back({layer + ".lora_A.weight", {lora.rank, adapted->shape[1]}, ParameterKind::Matrix});
    all.push_back({layer + ".lora_B.weight", {adapted->shape[0], lora.rank}, ParameterKind::Matrix});
    // The side of the pair that is divided in the layer itself.
    all[all.size() - (adapted->divided->dim == 1 ? 2 : 1)].divided = adapted->divided;
    adapted.reset();
  };
  for (const Parameter& parameter : block) {
    if (adapted && parameter.name != layer_of(*adapted) + ".bias") end_layer();
    all.push_back(parameter);
    if (parameter.kind == ParameterKind::Matrix && lora.is_for(layer_of(parameter))) adapted = parameter;
  }
  end_layer();
  return all;
}

Parameters root_of(const ModelConfig& config) {
  switch (config.family) {
    case Family::Gpt2:
      return gpt2_root(config);
    case Family::Bert:
      return bert_root(config);
    default:
      return llama_root(config);
  }
}

const char* blocks_of(Family family) {
  switch (family) {
    case Family::Gpt2:
      return "transformer.h";
    case Family::Bert:
      return "bert.encoder.layer";
    default:
      return "model.layers";
  }
}

Parameters block_of(const ModelConfig& config, const std::string& name) {
  switch (config.family) {
    case Family::Gpt2:
      return gpt2_block(config, name);
    case Family::Bert:
      return bert_block(config, name);
    default:
      return llama_block(config, name);
  }
}

template <typename Range>
int64_t sum_of_numels(const Range& parts) {
  return std::accumulate(parts.begin(), parts.end(), int64_t{0},
                         [](int64_t sum, const auto& part) { return sum + part.numel(); });
}

// An embedding of positions, or of BERT's two kinds of sentences: no head is tied to it.
bool is_only_looked_up(const Parameter& parameter) {
  const auto& name = parameter.name;
  return name.ends_with("wpe.weight") || name.ends_with("position_embeddings.weight") ||
         name.ends_with("token_type_embeddings.weight");
}

// All parameters in the order in which a forward uses them; a tied embedding comes again at its end, as a matrix.
Parameters in_order_of_use(const ModelConfig& config) {
  Parameters first, last;
  const std::vector<Unit> all = units(config);
  for (const Parameter& parameter : all[0].parameters) {
    const bool is_embedding = parameter.kind == ParameterKind::Embedding;
    (is_embedding ? first : last).push_back(parameter);
    if (!is_embedding || !config.tied_embeddings || is_only_looked_up(parameter)) continue;
    last.push_back({parameter.name, parameter.shape, ParameterKind::Matrix});
  }
  for (size_t unit = 1; unit < all.size(); ++unit) {
    first.insert(first.end(), all[unit].parameters.begin(), all[unit].parameters.end());
  }
  first.insert(first.end(), last.begin(), last.end());
  return first;
}

}  // namespace

int64_t Parameter::numel() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t Unit::numel() const { return sum_of_numels(parameters); }

std::vector<Unit> units(const ModelConfig& config) {
  std::vector<Unit> units{{"root", root_of(config)}};
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string name = fmt::format("{}.{}", blocks_of(config.family), layer);
    const Parameters block = block_of(config, name);
    units.push_back({name, config.lora ? with_adapters(*config.lora, block) : block});
  }
  return units;
}

std::vector<std::string> names_of(const ModelConfig& config, const std::vector<ParameterKind>& kinds) {
  std::vector<std::string> names;
  for (const Unit& unit : units(config)) {
    for (const Parameter& parameter : unit.parameters) {
      if (std::find(kinds.begin(), kinds.end(), parameter.kind) != kinds.end()) names.push_back(parameter.name);
    }
  }
  return names;
}

std::vector<std::string> linear_layers(const ModelConfig& config) {
  ModelConfig plain = config;
  plain.lora.reset();
  const std::vector<Unit> all = units(plain);
  std::vector<std::string> names;
  for (size_t unit = 1; unit < all.size(); ++unit) {
    for (const Parameter& parameter : all[unit].parameters) {
      if (parameter.kind == ParameterKind::Matrix) names.push_back(layer_of(parameter));
    }
  }
  return names;
}

bool is_adapter(const std::string& parameter) {
  return parameter.ends_with(".lora_A.weight") || parameter.ends_with(".lora_B.weight");
}

bool follows_attention(const Parameter& parameter) {
  const auto& name = parameter.name;
  return name.ends_with("attn.c_proj.weight") || name.ends_with("attn.o_proj.weight") ||
         name.ends_with("attention.output.dense.weight");
}

int64_t parameter_numel(const ModelConfig& config) { return sum_of_numels(units(config)); }

double flops_per_token(const ModelConfig& config, int64_t length, const std::set<std::string>& frozen) {
  constexpr double kForward = 2, kOwnGradient = 2, kInputGradient = 2;
  const auto attended = static_cast<double>(config.heads * config.head_width_or_default() * length);
  double flops = 0;
  bool is_below_trained = true;  // whether nothing before is trained, so that no gradient goes further back
  for (const Parameter& parameter : in_order_of_use(config)) {
    const bool is_trained = !frozen.contains(parameter.name);
    const double backward = is_below_trained ? 0 : kInputGradient;
    // Two products, scores and their sums of values, each of which hands on a gradient to both of its factors.
    if (follows_attention(parameter)) flops += 2 * attended * (kForward + 2 * backward);
    if (parameter.kind != ParameterKind::Embedding) {
      flops += static_cast<double>(parameter.numel()) * (kForward + (is_trained ? kOwnGradient : 0) + backward);
    }
    if (is_trained) is_below_trained = false;
  }
  return flops;
}

}  // namespace models
