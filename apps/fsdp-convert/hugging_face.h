// GPT-2's matrices, which Hugging Face's files hold transposed.
#pragma once

#include <string>
#include <vector>

#include "formats/source.h"

namespace converter {

// Patterns of the names of matrices that lie the other way round in a target of this format: between a checkpoint that
// fsdp-train made of a GPT-2, and a folder of Hugging Face's whose config.json is of one. None in all other cases.
// `path` is that of the source.
std::vector<std::string> transposed_by_format(const fsdp::formats::Source& source, const std::string& path,
                                              fsdp::formats::Format to);

}  // namespace converter
