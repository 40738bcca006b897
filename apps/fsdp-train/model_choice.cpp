#include "model_choice.h"

#include <fmt/format.h>

#include <array>

#include "nearest.h"

namespace trainer {

namespace {

struct Size {
  const char* name;
  gpt::Config config;
};

// Table 2 of the paper (Radford et al., 2019); heads of width 64, as in the published weights.
constexpr gpt::Config gpt2(int64_t width, int64_t layers) {
  return {.vocabulary = 50257, .context = 1024, .width = width, .layers = layers, .heads = width / 64};
}
constexpr std::array<Size, 4> kSizes = {{{"gpt2", gpt2(768, 12)},
                                         {"gpt2-medium", gpt2(1024, 24)},
                                         {"gpt2-large", gpt2(1280, 36)},
                                         {"gpt2-xl", gpt2(1600, 48)}}};

void take_size(const std::string& name, ModelChoice& choice) {
  std::vector<std::string> names;
  for (const Size& size : kSizes) {
    if (name == size.name) {
      choice.config = size.config;
      return;
    }
    names.emplace_back(size.name);
  }
  choice.problems.push_back(
      with_hint(fmt::format("--model '{}' is no size that is known", name), nearest(name, names)));
}

}  // namespace

ModelChoice choose_model(const ModelOptions& options) {
  ModelChoice choice;
  gpt::Config& config = choice.config;
  if (!options.model.empty()) take_size(options.model, choice);
  config.vocabulary = options.vocabulary.value_or(config.vocabulary);
  config.context = options.context.value_or(config.context);
  config.width = options.width.value_or(config.width);
  config.layers = options.layers.value_or(config.layers);
  config.heads = options.heads.value_or(config.heads);
  auto refuse = [&](bool given, const char* flag, const char* what) {
    if (given) choice.problems.push_back(fmt::format("{} is given, and a GPT-2 has {}.", flag, what));
  };
  refuse(options.key_value_heads.has_value(), "--key-value-heads", "as many as --heads");
  refuse(options.mlp_width.has_value(), "--mlp-width", "4 times --width");
  refuse(options.tie_embeddings == false, "--tie-embeddings false", "no head of its own");
  refuse(options.dropout.value_or(0) > 0, "--dropout", "none here");
  refuse(options.rope_theta.has_value(), "--rope-theta", "no rotary embedding");
  if (config.width % config.heads != 0) {
    choice.problems.push_back(fmt::format("--width {} is not a multiple of --heads {}.", config.width, config.heads));
  }
  return choice;
}

}  // namespace trainer
