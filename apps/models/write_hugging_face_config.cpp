#include "files/json.h"

#include "models/hugging_face_config.h"

namespace models {

namespace {

using fsdp::files::OrderedJson;

template <typename Value>
OrderedJson optional(const std::optional<Value>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson gpt2(const ModelConfig& config) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", config.vocabulary},
          {"n_positions", config.context},
          {"n_embd", config.width},
          {"n_layer", config.layers},
          {"n_head", config.heads},
          {"n_inner", optional(config.mlp_width)},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", config.norm_epsilon},
          {"embd_pdrop", config.embedding_dropout},
          {"attn_pdrop", config.attention_dropout},
          {"resid_pdrop", config.residual_dropout}};
}

// Both forms: older readers take no notice of rope_parameters, and would silently run with other wavelengths.
void add_rope(OrderedJson& json, const ModelConfig& config) {
  OrderedJson scaling = nullptr;
  if (config.rope_scaling) {
    scaling = {{"rope_type", "llama3"},
               {"factor", config.rope_scaling->factor},
               {"low_freq_factor", config.rope_scaling->low_frequency_factor},
               {"high_freq_factor", config.rope_scaling->high_frequency_factor},
               {"original_max_position_embeddings", config.rope_scaling->original_context}};
  }
  OrderedJson parameters = config.rope_scaling ? scaling : OrderedJson{{"rope_type", "default"}};
  parameters["rope_theta"] = config.rope_theta;
  json["rope_theta"] = config.rope_theta;
  json["rope_scaling"] = scaling;
  json["rope_parameters"] = parameters;
}

OrderedJson llama(const ModelConfig& config) {
  OrderedJson json = {{"architectures", {"LlamaForCausalLM"}},
                      {"model_type", "llama"},
                      {"vocab_size", config.vocabulary},
                      {"max_position_embeddings", config.context},
                      {"hidden_size", config.width},
                      {"num_hidden_layers", config.layers},
                      {"num_attention_heads", config.heads},
                      {"num_key_value_heads", config.key_value_heads_or_default()},
                      {"head_dim", config.head_width_or_default()},
                      {"intermediate_size", config.mlp_width_or_default()},
                      {"hidden_act", "silu"},
                      {"rms_norm_eps", config.norm_epsilon},
                      {"attention_bias", config.attention_bias},
                      {"mlp_bias", config.mlp_bias},
                      {"attention_dropout", config.attention_dropout}};
  add_rope(json, config);
  return json;
}

OrderedJson bert(const ModelConfig& config) {
  return {{"architectures", {"BertForPreTraining"}},
          {"model_type", "bert"},
          {"vocab_size", config.vocabulary},
          {"type_vocab_size", 2},
          {"max_position_embeddings", config.context},
          {"hidden_size", config.width},
          {"num_hidden_layers", config.layers},
          {"num_attention_heads", config.heads},
          {"intermediate_size", config.mlp_width_or_default()},
          {"hidden_act", "gelu"},
          {"layer_norm_eps", config.norm_epsilon},
          {"attention_probs_dropout_prob", config.attention_dropout},
          {"hidden_dropout_prob", config.residual_dropout}};
}

OrderedJson of_family(const ModelConfig& config) {
  if (config.family == Family::Gpt2) return gpt2(config);
  return config.family == Family::Bert ? bert(config) : llama(config);
}

}  // namespace

std::string hugging_face_config(const ModelConfig& config) {
  OrderedJson json = of_family(config);
  json["tie_word_embeddings"] = config.tied_embeddings;
  json["initializer_range"] = config.initializer_range;
  json["bos_token_id"] = optional(config.begin_token);
  const auto& end = config.end_tokens;
  json["eos_token_id"] = end.empty() ? OrderedJson(nullptr) : end.size() == 1 ? OrderedJson(end[0]) : OrderedJson(end);
  json["torch_dtype"] = "float32";
  return json.dump(2) + "\n";
}

std::string adapter_config(const ModelConfig& config, const std::string& base) {
  const Lora& lora = *config.lora;
  const OrderedJson json = {{"peft_type", "LORA"},
                            {"task_type", "CAUSAL_LM"},
                            {"base_model_name_or_path", base.empty() ? OrderedJson(nullptr) : OrderedJson(base)},
                            {"r", lora.rank},
                            {"lora_alpha", lora.alpha},
                            {"lora_dropout", lora.dropout},
                            {"target_modules", lora.targets},
                            {"fan_in_fan_out", config.family == Family::Gpt2},  // its matrices are [in, out] there
                            {"bias", "none"},
                            {"inference_mode", true}};
  // Paths need not be UTF-8, JSON must be.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace models
