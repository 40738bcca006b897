// The parameters of any model, as names and shapes: of a text, a file of safetensors or a checkpoint of this library.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace models {

struct ListedParameter {
  std::string name;
  std::vector<int64_t> shape;  // empty: a scalar

  int64_t numel() const;
};

struct ParameterList {
  std::vector<ListedParameter> parameters = {};  // each storage once, by its first name
  int64_t tied = 0;                              // other names of these storages
  int64_t buffers = 0;                           // tensors that are not trained, and in no figure of a plan

  int64_t numel() const;
};

// The elements that a list may have together: 2^53.
inline constexpr int64_t kMostListed = int64_t{1} << 53;

// A line for each parameter: its name, its shape, and its dtype if that is known.
//
//   # comment
//   model.embed_tokens.weight  [32000, 4096]  bf16
//   model.norm.weight          4096
//   scale                      []
//   lm_head.weight             = model.embed_tokens.weight
//   model.norm.running_mean    [4096] fp32 buffer
//
// A shape is [2, 3], (2, 3), torch.Size([2, 3]) or 2x3; [] is a scalar. "= NAME" is a further name of the storage of
// another parameter. Dtypes have the names of PyTorch, C++ or safetensors. A tensor of whole numbers, or with the word
// buffer, is no parameter. Throws fsdp::Error for all wrong lines; `origin` begins the message.
ParameterList parse_parameter_list(std::string_view text, const std::string& origin);

// Throws fsdp::Error unless there is an element, and kMostListed at most. `origin` begins the message.
void check_listed(const ParameterList& list, const std::string& origin);

// The header of a file of safetensors: JSON. Parameters come in the order of their bytes. Statistics of norms by
// LibTorch's names count as buffers.
ParameterList parse_safetensors_header(std::string_view header, const std::string& origin);

// The file that lists the parameters of `path`. A file: NAME.safetensors, NAME.index.json (files of safetensors),
// manifest.json (a checkpoint of this library), or a text that begins as no JSON. A folder: the first of manifest.json,
// config.json, model.safetensors.index.json and model.safetensors, unless that is config.json. None for all others.
std::optional<std::filesystem::path> list_of_parameters(const std::filesystem::path& path);

// Reads such a file. Throws fsdp::Error if it is damaged, or lists nothing.
ParameterList read_parameter_list(const std::filesystem::path& file);

}  // namespace models
