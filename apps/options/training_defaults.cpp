#include "options/training_defaults.h"

#include <fsdp/error.h>

#include <algorithm>
#include <filesystem>

#include "files/json.h"

namespace trainer {

namespace {

namespace fs = std::filesystem;

constexpr const char* kVersion = "defaults_version";

// Returns the settings of the run that goes on or whose configuration is used. Empty: there is no such run.
fs::path settings_of_run(const RunOptions& options) {
  const fs::path config = options.config;
  if (!config.empty()) return config.filename() == "config.toml" ? config.parent_path() / "config.json" : fs::path();
  return options.run.empty() || options.resume == "never" ? fs::path() : fs::path(options.run) / "config.json";
}

int64_t version_of(const RunOptions& options) try {
  constexpr int64_t kMostBytes = 1 << 20;
  const fs::path path = settings_of_run(options);
  std::error_code ignored;
  if (path.empty() || !fs::exists(path, ignored)) return RunOptions().defaults_version;
  const fsdp::files::Json settings = fsdp::files::read_json(path, path.string(), kMostBytes);
  return settings.contains(kVersion) ? fsdp::files::whole_number(settings, kVersion, path.string(), 1, 1000) : 1;
} catch (const fsdp::Error&) {
  return RunOptions().defaults_version;  // what is wrong with the run is said where it is loaded
}

}  // namespace

void fill_training_defaults(RunOptions& options) {
  const ModelOptions& model = options.model_options;
  const bool is_small = model.model.empty() && model.init_from.empty() && !model.lora;
  options.defaults_version = version_of(options);
  if (!is_small || options.defaults_version < 2) return;
  const auto is_chosen = [&](const char* flag) { return options.chosen.flags.contains(flag); };
  if (!is_chosen("--steps")) options.steps = kSmallSteps;
  const double width = static_cast<double>(std::max(options.model.width, kWidthOfHighestRate));
  if (!is_chosen("--lr")) options.lr = kHighestRate * static_cast<double>(kWidthOfHighestRate) / width;
}

}  // namespace trainer
