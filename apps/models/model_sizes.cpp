#include "models/model_sizes.h"

#include <utility>

namespace models {

namespace {

ModelConfig gpt2(int64_t width, int64_t layers, int64_t heads) {
  constexpr int64_t kEndOfText = 50'256;  // separates documents, so each begins with it too
  return {.vocabulary = 50'257,
          .context = 1024,
          .width = width,
          .layers = layers,
          .heads = heads,
          .begin_token = kEndOfText,
          .end_tokens = {kEndOfText}};
}

ModelConfig small_gpt2(int64_t context, int64_t width, int64_t layers, int64_t heads) {
  return {.vocabulary = 256, .context = context, .width = width, .layers = layers, .heads = heads};
}

// As published at https://huggingface.co/meta-llama/Llama-3.2-1B
ModelConfig llama_1b() {
  return {.family = Family::Llama,
          .vocabulary = 128'256,
          .context = 131'072,
          .width = 2048,
          .layers = 16,
          .heads = 32,
          .key_value_heads = 8,
          .mlp_width = 8192,
          .rope_theta = 500'000,
          .rope_scaling = RopeScaling{.factor = 32},
          .tied_embeddings = true,
          .begin_token = 128'000,
          .end_tokens = {128'001}};
}

// As published at https://huggingface.co/meta-llama/Llama-2-7b-hf
ModelConfig llama_7b() {
  return {.family = Family::Llama,
          .vocabulary = 32'000,
          .context = 4096,
          .width = 4096,
          .layers = 32,
          .heads = 32,
          .mlp_width = 11'008,
          .tied_embeddings = false,
          .begin_token = 1,
          .end_tokens = {2}};
}

// As published at https://huggingface.co/meta-llama/Llama-3.1-8B
ModelConfig llama_8b() {
  return {.family = Family::Llama,
          .vocabulary = 128'256,
          .context = 131'072,
          .width = 4096,
          .layers = 32,
          .heads = 32,
          .key_value_heads = 8,
          .mlp_width = 14'336,
          .rope_theta = 500'000,
          .rope_scaling = RopeScaling{.factor = 8},
          .tied_embeddings = false,
          .begin_token = 128'000,
          .end_tokens = {128'001}};
}

ModelConfig small_llama(int64_t context, int64_t width, int64_t layers, int64_t heads) {
  ModelConfig config = small_gpt2(context, width, layers, heads);
  config.family = Family::Llama;
  config.key_value_heads = heads / 2;
  return config;
}

const std::vector<std::pair<std::string, ModelConfig>>& sizes() {
  static const std::vector<std::pair<std::string, ModelConfig>> all = {{"gpt2-tiny", small_gpt2(128, 128, 4, 4)},
                                                                       {"gpt2-mini", small_gpt2(256, 384, 6, 6)},
                                                                       {"llama-tiny", small_llama(128, 128, 4, 4)},
                                                                       {"llama-mini", small_llama(256, 384, 6, 6)},
                                                                       {"gpt2", gpt2(768, 12, 12)},
                                                                       {"gpt2-medium", gpt2(1024, 24, 16)},
                                                                       {"gpt2-large", gpt2(1280, 36, 20)},
                                                                       {"gpt2-xl", gpt2(1600, 48, 25)},
                                                                       {"llama-1b", llama_1b()},
                                                                       {"llama-7b", llama_7b()},
                                                                       {"llama-8b", llama_8b()}};
  return all;
}

}  // namespace

std::vector<std::string> size_names() {
  std::vector<std::string> names;
  for (const auto& size : sizes()) names.push_back(size.first);
  return names;
}

std::optional<ModelConfig> config_of_size(const std::string& name) {
  for (const auto& [known, config] : sizes()) {
    if (known == name) return config;
  }
  return std::nullopt;
}

}  // namespace models
