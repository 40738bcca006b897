// A folder in Hugging Face's format: the config.json beside the tensors.
#pragma once

#include <optional>
#include <string>

#include "formats/source.h"

namespace converter {

// The model_type that the config.json beside the tensors says; `path` is a folder of Hugging Face's, or a file in it.
// Empty: there is none.
std::string model_type_beside(const std::string& path);

// The config.json for a folder of Hugging Face's: that of the folder which is the source; or that of the model which
// fsdp-train trained, as the run says in whose folder the checkpoint lies. With the dtype that tensors are converted
// to, if they are. Empty if unknown, and for a model with adapters, which do not fit into transformers' file.
std::string config_of(const fsdp::formats::Source& source, const std::string& path,
                      std::optional<torch::ScalarType> dtype);

}  // namespace converter
