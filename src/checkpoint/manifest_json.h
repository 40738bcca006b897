// A manifest as JSON, with zeros in the place of its hash.
#pragma once

#include <string>

#include "checkpoint/manifest.h"
#include "files/json.h"

namespace fsdp::checkpoint {

inline constexpr const char* kManifestFormat = "fsdp-checkpoint";

files::OrderedJson json_of(const Manifest& manifest);

// Throws Error for JSON of another kind, and of an unknown version. `file` begins the messages.
void check_format(const files::Json& json, const std::string& file);
// After that. Throws Error for what is missing, and for what does not fit together.
Manifest manifest_in(const files::Json& json, const std::string& file);

}  // namespace fsdp::checkpoint
