#include "options/model_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <filesystem>
#include <string_view>

#include "models/hugging_face_config.h"
#include "models/model_sizes.h"
#include "models/toml_config.h"
#include "options/did_you_mean.h"
#include "options/option_value.h"

namespace trainer {

namespace {

namespace fs = std::filesystem;

void take_file(const fs::path& path, ModelChoice& choice) {
  const models::ConfigFile file =
      path.extension() == ".toml" ? models::read_toml_config(path) : models::read_hugging_face_config(path);
  choice.config = file.config;
  for (const std::string& problem : file.problems) choice.problems.push_back(fmt::format("--model: {}", problem));
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

bool has_word(const std::string& text, const std::string& word) {
  const auto is_part = [&](size_t i) { return i < text.size() && (std::isalnum(text[i]) != 0 || text[i] == '_'); };
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    if ((at == 0 || !is_part(at - 1)) && !is_part(at + word.size())) return true;
  }
  return false;
}

// The flags of what was given and a problem with the shape names; otherwise --model, where that was given.
std::string with_flags(const std::string& problem, const ModelOptions& options) {
  Options given;
  given.model_options = options;
  std::vector<std::string> flags;
  for (const Row& row : option_rows()) {
    const bool is_named = row.section == std::string_view("model") && has_word(problem, row.key());
    if (is_named && value_of(row, given)) flags.emplace_back(row.flag);
  }
  if (flags.empty() && !options.model.empty()) flags.emplace_back("--model");
  return flags.empty() ? problem : fmt::format("{}: {}", fmt::join(flags, ", "), problem);
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
  if (!choice.problems.empty()) return choice;
  for (const std::string& problem : models::problems(config)) choice.problems.push_back(with_flags(problem, options));
  return choice;
}

}  // namespace trainer
