// A folder in Hugging Face's format: the config.json beside the tensors, and which matrices lie transposed in it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/source.h"

namespace converter {

// Patterns of the names of matrices that lie the other way round in a target of this format: GPT-2's, between a
// checkpoint that fsdp-train made of one, and a folder of Hugging Face's whose config.json is of one. None in all other
// cases. `path` is that of the source.
std::vector<std::string> transposed_by_format(const fsdp::formats::Source& source, const std::string& path,
                                              fsdp::formats::Format to);

// The config.json for a folder of Hugging Face's: that of the folder which is the source; or that of the model which
// fsdp-train trained, as the run says in whose folder the checkpoint lies. With the dtype that tensors are converted
// to, if they are. Empty where nobody knows, and for a model with adapters, which transformers has no place for.
std::string config_of(const fsdp::formats::Source& source, const std::string& path,
                      std::optional<torch::ScalarType> dtype);

}  // namespace converter
