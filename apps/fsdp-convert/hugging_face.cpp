#include "fsdp-convert/hugging_face.h"

#include <fsdp/error.h>

#include <filesystem>

#include "files/json.h"
#include "files/reading.h"
#include "models/hugging_face_config.h"
#include "options/command_line.h"
#include "options/numbers.h"
#include "options/run_choice.h"
#include "run/run_settings.h"

namespace converter {

namespace fs = std::filesystem;
using fsdp::formats::Format;

namespace {

constexpr int64_t kLongestConfig = 16 << 20;  // bytes, far beyond use

// As the notes of the checkpoint say, which fsdp-train wrote; empty: it did not.
std::string setting_of(const fsdp::formats::Source& source, const std::string& name) try {
  const auto note = source.facts().notes.find("settings");
  if (note == source.facts().notes.end()) return "";
  const trainer::RunSettings settings = trainer::settings_from_note(note->second);
  const auto setting = settings.find(name);
  return setting == settings.end() ? "" : setting->second;
} catch (const fsdp::Error&) {
  return "";
}

// Empty: there is none.
fs::path config_in(const fs::path& path) {
  std::error_code ignored;
  fs::path file = (fs::is_directory(path, ignored) ? path : path.parent_path()) / "config.json";
  return fs::exists(file, ignored) ? file : fs::path();
}

std::string config_of_run(const fsdp::formats::Source& source, const std::string& checkpoint) {
  const std::string file = trainer::configuration_of_run(checkpoint);
  const auto vocabulary = trainer::whole_number_in(setting_of(source, "--vocabulary"));
  if (file.empty() || !vocabulary) return "";
  const trainer::CommandLine run =
      trainer::parse_command_line({"sample", "--checkpoint", checkpoint, "--config", file});
  if (!run.problems.empty() || run.options.model.lora) return "";
  models::ModelConfig model = run.options.model;
  model.vocabulary = *vocabulary;
  return models::hugging_face_config(model);
}

}  // namespace

std::string model_type_beside(const std::string& path) try {
  const fs::path file = config_in(path);
  if (file.empty()) return "";
  const auto config = fsdp::files::read_json(file, file.string(), kLongestConfig);
  const auto type = config.is_object() ? config.find("model_type") : config.end();
  return config.is_object() && type != config.end() && type->is_string() ? type->get<std::string>() : "";
} catch (const fsdp::Error&) {
  return "";
}

namespace {

// The config of a folder of transformers, which has a config.json.
std::string config_of_folder(const fs::path& folder) try {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return "";
  const fs::path file = folder / "config.json";
  std::string text = fsdp::files::read_whole(file, file.string(), kLongestConfig);
  const auto config = fsdp::files::parse_ordered_json(text, file.string());
  return config.is_object() && config.contains("model_type") ? text : "";
} catch (const fsdp::Error&) {
  return "";
}

// transformers has two names for it, and reads both.
std::string with_dtype(const std::string& text, torch::ScalarType dtype) {
  const char* name = dtype == torch::kFloat32 ? "float32" : dtype == torch::kBFloat16 ? "bfloat16" : "float16";
  auto config = fsdp::files::parse_ordered_json(text, "config.json");
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (config.contains(key)) config[key] = name;
  }
  return config.dump(2) + "\n";
}

}  // namespace

std::string config_of(const fsdp::formats::Source& source, const std::string& path,
                      std::optional<torch::ScalarType> dtype) {
  std::string text;
  if (source.format() == Format::Checkpoint) text = config_of_run(source, path);
  if (source.format() == Format::HuggingFace) text = config_of_folder(path);
  return text.empty() || !dtype ? text : with_dtype(text, *dtype);
}

}  // namespace converter
