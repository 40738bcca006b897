#include "models/model_sizes.h"

#include <utility>

#include "models/published_sizes.h"

namespace models {

namespace {

ModelConfig small_gpt2(int64_t context, int64_t width, int64_t layers, int64_t heads) {
  return {.vocabulary = 256, .context = context, .width = width, .layers = layers, .heads = heads};
}

ModelConfig small_llama(int64_t context, int64_t width, int64_t layers, int64_t heads) {
  ModelConfig config = small_gpt2(context, width, layers, heads);
  config.family = Family::Llama;
  config.key_value_heads = heads / 2;
  return config;
}

const std::vector<NamedSize>& sizes() {
  static const std::vector<NamedSize> all = [] {
    std::vector<NamedSize> sizes = {{"gpt2-tiny", small_gpt2(128, 128, 4, 4)},
                                    {"gpt2-mini", small_gpt2(256, 384, 6, 6)},
                                    {"llama-tiny", small_llama(128, 128, 4, 4)},
                                    {"llama-mini", small_llama(256, 384, 6, 6)}};
    for (NamedSize& size : published_sizes()) sizes.push_back(std::move(size));
    return sizes;
  }();
  return all;
}

struct Alias {
  const char* name;
  const char* size;
};

constexpr Alias kAliases[] = {{"llama-1b", "llama3.2-1b"}, {"llama-7b", "llama2-7b"}, {"llama-8b", "llama3.1-8b"}};

}  // namespace

std::vector<std::string> size_names() {
  std::vector<std::string> names;
  for (const auto& [name, config] : sizes()) {
    if (!is_for_plans_alone(config.family)) names.push_back(name);
  }
  for (const Alias& alias : kAliases) names.emplace_back(alias.name);
  return names;
}

std::vector<std::string> planned_names() {
  std::vector<std::string> names = size_names();
  for (const auto& [name, config] : sizes()) {
    if (is_for_plans_alone(config.family)) names.push_back(name);
  }
  return names;
}

std::optional<ModelConfig> config_of_size(const std::string& name) {
  const std::string behind = name_behind(name);
  for (const auto& [known, config] : sizes()) {
    if (known == behind) return config;
  }
  return std::nullopt;
}

std::string name_behind(const std::string& name) {
  for (const Alias& alias : kAliases) {
    if (name == alias.name) return alias.size;
  }
  return name;
}

}  // namespace models
