// Models as a TOML file describes them (https://toml.io/en/v1.0.0): the names of ModelConfig's fields as keys, and
// `family`, which is "gpt2" or "llama".
#pragma once

#include <filesystem>

#include "models/hugging_face_config.h"

namespace models {

// A key that is absent has the default of ModelConfig. Problems name the file and the line: keys that are unknown,
// values of another type, and what problems(config) finds.
ConfigFile read_toml_config(const std::filesystem::path& path);

}  // namespace models
