#include "options/sample_choice.h"

namespace trainer {

namespace fs = std::filesystem;

SampleForm sample_form(const fs::path& named) {
  std::error_code ignored;
  const auto has = [&](const char* file) { return fs::is_regular_file(named / file, ignored); };
  if (has("manifest.json")) return SampleForm::Checkpoint;
  if (has("config.toml") || has("metrics.jsonl")) return SampleForm::Run;
  if (has("config.json") && (has("model.safetensors") || has("model.safetensors.index.json"))) {
    return SampleForm::Exported;
  }
  return SampleForm::Unknown;
}

fs::path run_around(const fs::path& named) {
  if (sample_form(named) == SampleForm::Run) return named;
  std::error_code ignored;
  const fs::path whole = fs::weakly_canonical(fs::absolute(named, ignored) / "", ignored);  // "." and links, too
  return (whole / "").parent_path().parent_path();
}

std::string configuration_to_sample(const std::string& named) {
  if (named.empty() || sample_form(named) == SampleForm::Exported) return "";
  std::error_code ignored;
  const fs::path file = run_around(named) / "config.toml";
  return fs::exists(file, ignored) ? file.string() : "";
}

}  // namespace trainer
