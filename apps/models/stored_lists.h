// Lists of parameters in files of tensors. Each throws fsdp::Error if a file is damaged, or lists nothing; `origin`
// begins the message.
#pragma once

#include <filesystem>
#include <string>

#include "models/parameter_list.h"

namespace models {

// The header of a file of safetensors; the tensors need not be there.
ParameterList read_safetensors_list(const std::filesystem::path& file, const std::string& origin);

// The headers of all files that an index names, which lie beside it.
ParameterList read_safetensors_index(const std::filesystem::path& index, const std::string& origin);

// The manifest of a checkpoint of this library.
ParameterList read_checkpoint_list(const std::filesystem::path& folder, const std::string& origin);

}  // namespace models
