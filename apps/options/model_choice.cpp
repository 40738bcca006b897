#include "options/model_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <string_view>

#include "models/hugging_face_config.h"
#include "models/model_sizes.h"
#include "models/toml_config.h"
#include "options/did_you_mean.h"
#include "options/frozen.h"
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
    const std::vector<std::string> names = models::size_names();
    const std::string statement =
        with_hint(fmt::format("--model '{}' is no size that is known, and no file", name), did_you_mean(name, names));
    choice.problems.push_back(
        fmt::format("{} Known are {}; fsdp-train models shows them.", statement, fmt::join(names, ", ")));
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
  AllOptions given;
  given.model_options = options;
  std::vector<std::string> flags;
  for (const Row& row : option_rows()) {
    const bool is_named = row.section == std::string_view("model") && has_word(problem, row.key());
    if (is_named && value_of(row, given)) flags.emplace_back(row.flag);
  }
  if (flags.empty() && !options.model.empty()) flags.emplace_back("--model");
  return flags.empty() ? problem : fmt::format("{}: {}", fmt::join(flags, ", "), problem);
}

std::string last_name(const std::string& layer) { return layer.substr(layer.rfind('.') + 1); }

std::vector<std::string> default_targets(models::Family family) {
  if (family == models::Family::Gpt2) return {"c_attn"};
  return {"q_proj", "v_proj"};
}

// Those of --lora-targets; each has to be a layer's.
std::vector<std::string> targets_of(const ModelOptions& options, ModelChoice& choice) {
  const std::vector<std::string> layers = models::linear_layers(choice.config);
  std::set<std::string> names;
  for (const std::string& layer : layers) names.insert(last_name(layer));
  const std::vector<std::string> all(names.begin(), names.end());
  if (options.lora_targets.empty()) return default_targets(choice.config.family);
  if (options.lora_targets == "all") return all;
  const std::vector<std::string> targets = names_in(options.lora_targets);
  for (const std::string& target : targets) {
    const models::Lora one{.targets = {target}};
    if (std::ranges::any_of(layers, [&](const std::string& layer) { return one.is_for(layer); })) continue;
    choice.problems.push_back(
        with_hint(fmt::format("--lora-targets: '{}' is no linear layer of the blocks, which have {}", target,
                              fmt::join(all, ", ")),
                  did_you_mean(target, all)));
  }
  return targets;
}

void set_lora(const ModelOptions& options, ModelChoice& choice) {
  auto refuse = [&](bool given, const char* flag) {
    if (given) choice.problems.push_back(fmt::format("{} is given without --lora, whose adapters it is about.", flag));
  };
  if (!options.lora) {
    refuse(options.lora_alpha.has_value(), "--lora-alpha");
    refuse(!options.lora_targets.empty(), "--lora-targets");
    refuse(options.lora_dropout.has_value(), "--lora-dropout");
    return;
  }
  choice.config.lora = {.rank = *options.lora,
                        .alpha = options.lora_alpha.value_or(2 * static_cast<double>(*options.lora)),
                        .dropout = options.lora_dropout.value_or(0),
                        .targets = targets_of(options, choice)};
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
  if (choice.problems.empty()) set_lora(options, choice);
  return choice;
}

void spell_out(const models::ModelConfig& shape, ModelOptions& options) {
  if (!options.model.empty()) return;
  options.context = shape.context;
  options.width = shape.width;
  options.layers = shape.layers;
  options.heads = shape.heads;
}

std::string positions_problem(const RunOptions& options) {
  const std::string& path = options.model_options.init_from;
  std::error_code ignored;
  if (options.no_strict || options.model.family != models::Family::Gpt2 || !fs::is_directory(path, ignored)) return "";
  const models::ConfigFile file = models::read_hugging_face_config(path);
  const bool is_gpt2 = file.problems.empty() && file.config.family == models::Family::Gpt2;
  if (!is_gpt2 || options.model.context <= file.config.context) return "";
  return fmt::format("--init-from: the GPT-2 in '{}' has {} positions, and --context is {}. Use --context {}{}.", path,
                     file.config.context, options.model.context, file.config.context,
                     options.eval_only ? "" : ", or begin with new weights for the others: --no-strict");
}

}  // namespace trainer
