// GPT-2's matrices, which Hugging Face's files have transposed.
#pragma once

#include <string>
#include <vector>

#include "formats/source.h"

namespace converter {

// How a conversion treats them.
struct Gpt2Matrices {
  std::vector<std::string> transposed;  // patterns of names, for a Conversion
  std::string remark;                   // a sentence for the user; empty: there is nothing to say
};

// They are transposed where a folder of Hugging Face's becomes a checkpoint, or anything becomes such a folder, unless
// they lie as the target has them. The names say that a model is a GPT-2, and a config.json beside the source does not
// say that it is another. The shape of c_attn, which is three times as long one way as the other, says how they lie.
// `path` is that of the source.
Gpt2Matrices gpt2_matrices(const fsdp::formats::Source& source, const std::string& path, fsdp::formats::Format to);

}  // namespace converter
