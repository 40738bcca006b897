#include "options/model_choice.h"

#include <fmt/format.h>

#include <filesystem>

#include "models/hugging_face_config.h"
#include "models/model_sizes.h"
#include "models/toml_config.h"
#include "options/did_you_mean.h"

namespace trainer {

namespace {

namespace fs = std::filesystem;

void take_file(const fs::path& path, ModelChoice& choice) {
  const models::ConfigFile file =
      path.extension() == ".toml" ? models::read_toml_config(path) : models::read_hugging_face_config(path);
  choice.config = file.config;
  choice.problems.insert(choice.problems.end(), file.problems.begin(), file.problems.end());
}

void take_model(const std::string& name, ModelChoice& choice) {
  std::error_code ignored;
  if (const auto config = models::config_of_size(name)) {
    choice.config = *config;
  } else if (name.find('/') != std::string::npos || fs::path(name).has_extension() || fs::exists(name, ignored)) {
    take_file(name, choice);
  } else {
    choice.problems.push_back(with_hint(fmt::format("--model '{}' is no size that is known, and no file", name),
                                        did_you_mean(name, models::size_names())));
  }
}

// A value that the family does not have cannot be set.
void refuse_foreign(const ModelOptions& options, ModelChoice& choice) {
  auto refuse = [&](bool given, const char* flag, const char* what) {
    if (given) choice.problems.push_back(fmt::format("{} is given, and a GPT-2 has {}.", flag, what));
  };
  if (choice.config.family != models::Family::Gpt2) return;
  refuse(options.key_value_heads.has_value(), "--key-value-heads", "as many as --heads");
  refuse(options.rope_theta.has_value(), "--rope-theta", "no rotary embedding");
}

void set_dropout(double dropout, models::ModelConfig& config) {
  config.attention_dropout = dropout;
  if (config.family == models::Family::Gpt2) config.embedding_dropout = config.residual_dropout = dropout;
}

}  // namespace

ModelChoice choose_model(const ModelOptions& options) {
  ModelChoice choice;
  models::ModelConfig& config = choice.config;
  if (!options.model.empty()) take_model(options.model, choice);
  if (!choice.problems.empty()) return choice;
  refuse_foreign(options, choice);
  config.vocabulary = options.vocabulary.value_or(config.vocabulary);
  config.context = options.context.value_or(config.context);
  config.width = options.width.value_or(config.width);
  config.layers = options.layers.value_or(config.layers);
  config.heads = options.heads.value_or(config.heads);
  config.tied_embeddings = options.tie_embeddings.value_or(config.tied_embeddings);
  config.rope_theta = options.rope_theta.value_or(config.rope_theta);
  if (options.key_value_heads) config.key_value_heads = options.key_value_heads;
  if (options.mlp_width) config.mlp_width = options.mlp_width;
  if (options.dropout) set_dropout(*options.dropout, config);
  if (choice.problems.empty()) choice.problems = models::problems(config);
  return choice;
}

}  // namespace trainer
