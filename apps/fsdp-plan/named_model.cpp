#include "fsdp-plan/named_model.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>

#include "files/printable.h"
#include "models/model_sizes.h"
#include "options/configuration_file.h"
#include "options/model_choice.h"
#include "options/option_value.h"
#include "options/run_choice.h"

namespace planner {

namespace {

namespace fs = std::filesystem;

// The model's options in a run's configuration. None for a configuration with problems.
std::optional<trainer::ModelOptions> options_of_run(const std::string& configuration) {
  trainer::AllOptions options;
  if (configuration.empty() || !trainer::read_configuration(configuration, options).problems.empty())
    return std::nullopt;
  options.model_options.init_from.clear();
  return options.model_options;
}

std::vector<std::string> words_of(const trainer::ModelOptions& model) {
  trainer::AllOptions options;
  options.model_options = model;
  std::vector<std::string> words;
  for (const trainer::Row& row : trainer::option_rows()) {
    if (row.section != std::string_view("model")) continue;
    if (const auto value = trainer::value_of(row, options))
      words.push_back(fmt::format("{}={}", row.flag, trainer::shown(*value)));
  }
  return words;
}

bool has_parameters(const models::ModelConfig& config, const models::ParameterList& list) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const models::Unit& unit : models::units(config)) {
    for (const models::Parameter& parameter : unit.parameters) shapes.emplace(parameter.name, parameter.shape);
  }
  return shapes.size() == list.parameters.size() &&
         std::ranges::all_of(list.parameters, [&](const models::ListedParameter& parameter) {
           const auto found = shapes.find(parameter.name);
           return found != shapes.end() && found->second == parameter.shape;
         });
}

NamedModel listed(const fs::path& file) {
  NamedModel model{.list = models::read_parameter_list(file)};
  if (file.filename() != "manifest.json") return model;
  const auto options = options_of_run(trainer::configuration_of_run(file.parent_path().string()));
  if (!options) return model;
  const trainer::ModelChoice choice = trainer::choose_model(*options);
  if (!choice.problems.empty() || !has_parameters(choice.config, *model.list)) return model;
  return {.shape = words_of(*options)};
}

// A folder that lists no parameters and has no config.json.
NamedModel of_folder(const std::string& word) {
  if (const auto options = options_of_run((fs::path(word) / "config.toml").string()))
    return {.shape = words_of(*options)};
  return {.problem = fmt::format("folder '{}' holds no model: found no manifest.json, config.json, config.toml, "
                                 "model.safetensors.index.json or model.safetensors. Name a checkpoint, a run of "
                                 "fsdp-train, or a folder of Hugging Face.",
                                 fsdp::files::printable(word))};
}

}  // namespace

NamedModel named_model(const std::string& word) try {
  const NamedModel as_it_is{.shape = {"--model", word}};
  if (models::config_of_size(word)) return as_it_is;
  if (const auto file = models::list_of_parameters(word)) return listed(*file);
  std::error_code ignored;
  const bool is_config = fs::is_regular_file(fs::path(word) / "config.json", ignored);
  return fs::is_directory(word, ignored) && !is_config ? of_folder(word) : as_it_is;
} catch (const fsdp::Error& error) {
  return {.problem = error.what()};
}

std::string weights_beside(const std::string& word) {
  std::error_code ignored;
  const fs::path folder = fs::is_directory(word, ignored) ? fs::path(word) : fs::path(word).parent_path();
  for (const char* name : {"model.safetensors.index.json", "model.safetensors"}) {
    if (fs::is_regular_file(folder / name, ignored)) return (folder / name).string();
  }
  return "";
}

}  // namespace planner
