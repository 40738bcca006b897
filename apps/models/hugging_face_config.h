// Models as Hugging Face's config.json describes them (https://huggingface.co/docs/transformers: GPT2Config,
// LlamaConfig, BertConfig).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/model_config.h"

namespace models {

// The contents of a config.json; the config is one to be built when there are no problems.
struct ConfigFile {
  ModelConfig config;
  std::vector<std::string> problems;  // every one that was found, a sentence each
};

// Reads a file, or a folder with a config.json. Problems name the file.
ConfigFile read_hugging_face_config(const std::filesystem::path& path);

// Reads the text of one. A key that is absent or null has the value that transformers gives it. Both forms of the
// rotary embedding are read: rope_parameters, and the older rope_theta with rope_scaling. Unsupported features (another
// model_type, activation or rope_type, sliding windows, quantized weights, ...) are problems with the key, the found
// and the accepted values.
ConfigFile parse_hugging_face_config(const std::string& text);

// The text of peft's adapter_config.json for the adapters of `config`, which has some. `base` is the place of the
// weights below them, or empty if unknown.
std::string adapter_config(const ModelConfig& config, const std::string& base);

// The text of a config.json that transformers, old and new, reads as `config`.
std::string hugging_face_config(const ModelConfig& config);

}  // namespace models
