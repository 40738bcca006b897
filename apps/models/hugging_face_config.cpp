#include "models/hugging_face_config.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include "files/json.h"
#include "files/printable.h"
#include "models/json_fields.h"

namespace models {

namespace {

namespace fs = std::filesystem;

struct Rope {
  std::optional<double> theta;
  std::optional<RopeScaling> scaling;
};

// The object at `key`: rope_parameters or rope_scaling.
Rope parse_rope(const Json& object, const std::string& key, int64_t context, std::vector<std::string>& problems) {
  Rope rope;
  JsonFields fields(object, problems, key + ".");
  // Models with another embedding in each kind of layer have one object per kind here.
  fields.accept_keys({"rope_type", "type", "rope_theta", "factor", "low_freq_factor", "high_freq_factor",
                      "original_max_position_embeddings", "partial_rotary_factor"});
  fields.accept("partial_rotary_factor", {nullptr, 1});
  rope.theta = fields.number("rope_theta");
  const std::string type_key = fields.has("rope_type") ? "rope_type" : "type";
  fields.accept(type_key, {nullptr, "default", "llama3"});
  const Json* type = fields.find(type_key);
  if (type == nullptr || *type != "llama3") return rope;
  for (const char* required : {"factor", "low_freq_factor", "high_freq_factor"}) {
    if (!fields.has(required)) fields.report(required, "llama3 needs a number");
  }
  rope.scaling = RopeScaling{
      .factor = fields.number("factor").value_or(8),
      .low_frequency_factor = fields.number("low_freq_factor").value_or(1),
      .high_frequency_factor = fields.number("high_freq_factor").value_or(4),
      .original_context = fields.whole_number("original_max_position_embeddings").value_or(context),
  };
  return rope;
}

void parse_ropes(JsonFields& fields, ModelConfig& config, std::vector<std::string>& problems) {
  Rope ropes[2];
  const char* keys[] = {"rope_parameters", "rope_scaling"};
  for (size_t i = 0; i < 2; ++i) {
    const Json* object = fields.find(keys[i]);
    if (object == nullptr) continue;
    if (object->is_object()) {
      ropes[i] = parse_rope(*object, keys[i], config.context, problems);
    } else {
      fields.report(keys[i], "it must be an object");
    }
  }
  const auto& [newer, older] = ropes;
  if (fields.has(keys[0]) && fields.has(keys[1]) && newer.scaling != older.scaling) {
    problems.push_back("rope_parameters and rope_scaling differ; keep one of them.");
  }
  config.rope_scaling = newer.scaling ? newer.scaling : older.scaling;
  const std::optional<double> top = fields.number("rope_theta"), inner = newer.theta ? newer.theta : older.theta;
  if (top && inner && *top != *inner) {
    problems.push_back(fmt::format("rope_theta is {}, and {} beside the rope_type; keep one of them.", *top, *inner));
  }
  config.rope_theta = inner.value_or(top.value_or(config.rope_theta));
}

// Fields of the config that are at their default, though nothing says so: a config compares equal however the file put
// it.
void leave_out_defaults(ModelConfig& config) {
  const ModelConfig written = config;
  config.mlp_width = config.key_value_heads = std::nullopt;
  if (config.head_width_or_default() * config.heads == config.width) config.head_width = std::nullopt;
  if (written.mlp_width != config.mlp_width_or_default()) config.mlp_width = written.mlp_width;
  if (written.key_value_heads != config.key_value_heads_or_default()) config.key_value_heads = written.key_value_heads;
}

void parse_tokens(JsonFields& fields, ModelConfig& config) {
  config.begin_token = fields.whole_number("bos_token_id");
  const Json* end = fields.find("eos_token_id");
  if (end == nullptr) return;
  for (const Json& token : end->is_array() ? *end : Json::array({*end})) {
    if (!fits_in_64_bits(token)) return fields.report("eos_token_id", "it must be a whole number, or a list of them");
    config.end_tokens.push_back(token.get<int64_t>());
  }
}

ModelConfig parse_gpt2(JsonFields& fields) {
  ModelConfig config{.family = Family::Gpt2};
  config.vocabulary = fields.whole_number("vocab_size").value_or(50'257);
  config.context = fields.whole_number("n_positions").value_or(1024);
  config.width = fields.whole_number("n_embd").value_or(768);
  config.layers = fields.whole_number("n_layer").value_or(12);
  config.heads = fields.whole_number("n_head").value_or(12);
  config.mlp_width = fields.whole_number("n_inner");
  config.norm_epsilon = fields.number("layer_norm_epsilon").value_or(1e-5);
  config.tied_embeddings = fields.flag("tie_word_embeddings").value_or(true);
  config.embedding_dropout = fields.number("embd_pdrop").value_or(0.1);
  config.attention_dropout = fields.number("attn_pdrop").value_or(0.1);
  config.residual_dropout = fields.number("resid_pdrop").value_or(0.1);
  // Two names of the same function.
  fields.accept("activation_function", {nullptr, "gelu_new", "gelu_pytorch_tanh"});
  fields.accept("scale_attn_weights", {nullptr, true});
  fields.accept("scale_attn_by_inverse_layer_idx", {nullptr, false});
  fields.accept("reorder_and_upcast_attn", {nullptr, false});
  fields.accept("add_cross_attention", {nullptr, false});
  return config;
}

ModelConfig parse_llama(JsonFields& fields, std::vector<std::string>& problems) {
  ModelConfig config{.family = Family::Llama};
  config.vocabulary = fields.whole_number("vocab_size").value_or(32'000);
  config.context = fields.whole_number("max_position_embeddings").value_or(2048);
  config.width = fields.whole_number("hidden_size").value_or(4096);
  config.layers = fields.whole_number("num_hidden_layers").value_or(32);
  config.heads = fields.whole_number("num_attention_heads").value_or(32);
  config.key_value_heads = fields.whole_number("num_key_value_heads");
  config.head_width = fields.whole_number("head_dim");
  config.mlp_width = fields.whole_number("intermediate_size").value_or(11'008);
  config.norm_epsilon = fields.number("rms_norm_eps").value_or(1e-6);
  config.tied_embeddings = fields.flag("tie_word_embeddings").value_or(false);
  config.attention_bias = fields.flag("attention_bias").value_or(false);
  config.mlp_bias = fields.flag("mlp_bias").value_or(false);
  config.attention_dropout = fields.number("attention_dropout").value_or(0);
  parse_ropes(fields, config, problems);
  fields.accept("hidden_act", {nullptr, "silu", "swish"});  // two names of the same function
  fields.accept("partial_rotary_factor", {nullptr, 1});
  fields.accept("sliding_window", {nullptr});
  fields.accept("use_sliding_window", {nullptr, false});
  return config;
}

ModelConfig parse_bert(JsonFields& fields) {
  ModelConfig config{.family = Family::Bert};
  config.vocabulary = fields.whole_number("vocab_size").value_or(30'522);
  config.context = fields.whole_number("max_position_embeddings").value_or(512);
  config.width = fields.whole_number("hidden_size").value_or(768);
  config.layers = fields.whole_number("num_hidden_layers").value_or(12);
  config.heads = fields.whole_number("num_attention_heads").value_or(12);
  config.mlp_width = fields.whole_number("intermediate_size").value_or(3072);
  config.norm_epsilon = fields.number("layer_norm_eps").value_or(1e-12);
  config.tied_embeddings = fields.flag("tie_word_embeddings").value_or(true);
  config.attention_dropout = fields.number("attention_probs_dropout_prob").value_or(0.1);
  config.embedding_dropout = config.residual_dropout = fields.number("hidden_dropout_prob").value_or(0.1);
  fields.accept("hidden_act", {nullptr, "gelu"});
  fields.accept("type_vocab_size", {nullptr, 2});
  fields.accept("position_embedding_type", {nullptr, "absolute"});
  fields.accept("is_decoder", {nullptr, false});
  fields.accept("add_cross_attention", {nullptr, false});
  return config;
}

// `family` is an accepted model_type.
ModelConfig parse_family(const std::string& family, JsonFields& fields, std::vector<std::string>& problems) {
  if (family == "gpt2") return parse_gpt2(fields);
  return family == "bert" ? parse_bert(fields) : parse_llama(fields, problems);
}

ConfigFile parse_object(const Json& object) {
  ConfigFile file;
  JsonFields fields(object, file.problems);
  fields.accept("model_type", {"gpt2", "llama", "bert"});
  if (!file.problems.empty()) return file;  // the other keys are another model's
  file.config = parse_family(*fields.word("model_type"), fields, file.problems);
  file.config.initializer_range = fields.number("initializer_range").value_or(0.02);
  parse_tokens(fields, file.config);
  fields.accept("quantization_config", {nullptr});
  // A value that could not be read has a default by now, which says nothing about the file.
  if (file.problems.empty()) file.problems = problems(file.config);
  if (file.problems.empty()) leave_out_defaults(file.config);
  return file;
}

ConfigFile parse(const Json& json) {
  if (json.is_object()) return parse_object(json);
  return {{}, {"is not a JSON object."}};
}

}  // namespace

ConfigFile parse_hugging_face_config(const std::string& text) try {
  return parse(fsdp::files::parse_json(text, "config.json"));
} catch (const fsdp::Error& error) {
  return {{}, {error.what()}};
}

ConfigFile read_hugging_face_config(const fs::path& path) try {
  constexpr int64_t kLongest = 16 << 20;  // far beyond use: this is not the weights' file
  std::error_code ignored;
  const fs::path file = fs::is_directory(path, ignored) ? path / "config.json" : path;
  const std::string shown = fsdp::files::printable(file.string());
  ConfigFile result = parse(fsdp::files::read_json(file, fmt::format("config '{}'", shown), kLongest));
  for (std::string& problem : result.problems) problem = fmt::format("{}: {}", shown, problem);
  return result;
} catch (const fsdp::Error& error) {
  return {{}, {error.what()}};
}

}  // namespace models
