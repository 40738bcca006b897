#include "fsdp-convert/gpt2.h"

#include <fsdp/error.h>

#include <filesystem>

#include "models/hugging_face_config.h"
#include "models/hugging_face_weights.h"
#include "run/run_settings.h"

namespace converter {

using fsdp::formats::Format;

namespace {

// Whether the notes of the checkpoint say so, as fsdp-train writes them.
bool is_run_of_gpt2(const fsdp::formats::Source& source) try {
  const auto note = source.facts().notes.find("settings");
  if (note == source.facts().notes.end()) return false;
  const trainer::RunSettings settings = trainer::settings_from_note(note->second);
  const auto model = settings.find("--model");
  return model != settings.end() && model->second == models::name_of(models::Family::Gpt2);
} catch (const fsdp::Error&) {
  return false;
}

bool is_config_of_gpt2(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::is_directory(path, ignored) ? path : path.parent_path();
  if (!std::filesystem::exists(folder / "config.json", ignored)) return false;
  const models::ConfigFile file = models::read_hugging_face_config(folder);
  return file.problems.empty() && file.config.family == models::Family::Gpt2;
}

}  // namespace

std::vector<std::string> transposed_by_format(const fsdp::formats::Source& source, const std::string& path, Format to) {
  const bool to_hugging_face = to == Format::HuggingFace && source.format() == Format::Checkpoint;
  const bool from_hugging_face = to == Format::Checkpoint && source.format() == Format::HuggingFace;
  const bool is_gpt2 = (to_hugging_face && is_run_of_gpt2(source)) || (from_hugging_face && is_config_of_gpt2(path));
  models::ModelConfig config;
  config.family = models::Family::Gpt2;
  return is_gpt2 ? models::pretrained_options(config).transposed : std::vector<std::string>();
}

}  // namespace converter
