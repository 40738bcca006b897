#include "models/hugging_face_weights.h"

namespace models {

namespace {

// A matrix with what its adapter adds; undefined for a parameter without one.
torch::Tensor merged(const Lora& lora, const std::string& name, const fsdp::PretrainedOptions::Whole& whole) {
  constexpr std::string_view kWeight = ".weight";
  if (!name.ends_with(kWeight)) return {};
  const std::string layer = name.substr(0, name.size() - kWeight.size());
  if (!lora.is_for(layer)) return {};
  const torch::Tensor a = whole(layer + ".lora_A.weight"), b = whole(layer + ".lora_B.weight");
  return whole(name) + torch::mm(b, a) * lora.scale();
}

}  // namespace

fsdp::PretrainedOptions pretrained_options(const ModelConfig& config) {
  fsdp::PretrainedOptions options;
  if (config.family == Family::Gpt2) {
    options.optional_prefix = "transformer.";
    options.transposed = {"*.attn.c_attn.weight", "*.attn.c_proj.weight", "*.mlp.c_fc.weight", "*.mlp.c_proj.weight"};
    options.ignored = {"*.attn.bias", "*.attn.masked_bias"};
    options.first_rows = {"*wpe.weight"};
  } else {
    options.optional_prefix = "model.";
    options.ignored = {"*rotary_emb.inv_freq"};
  }
  if (config.tied_embeddings) options.ignored.push_back("lm_head.weight");
  if (config.lora) {
    options.absent = {"*.lora_A.weight", "*.lora_B.weight"};
    options.written = [lora = *config.lora](const std::string& name, const auto& whole) {
      return merged(lora, name, whole);
    };
  }
  return options;
}

fsdp::PretrainedOptions adapter_options(const ModelConfig& config) {
  fsdp::PretrainedOptions options;
  options.name_in_file = [](const std::string& name) { return "base_model.model." + name; };
  for (const Unit& unit : units(config)) {
    for (const Parameter& parameter : unit.parameters) {
      if (!is_adapter(parameter.name)) options.absent.push_back(parameter.name);
    }
  }
  return options;
}

}  // namespace models
