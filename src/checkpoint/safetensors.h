// Files in the safetensors format: named tensors behind a JSON header (https://github.com/huggingface/safetensors).
//
// Layout: u64 little-endian length of the header; the header, UTF-8 JSON, padded by spaces to 8 bytes; the tensors'
// bytes, without holes. Free to call from any thread.
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::checkpoint {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

// Writes and fsyncs. Throws Error naming the file when it cannot, for example on a full disk.
void write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata);

// Everything in the file. Throws Error, before anything is allocated, for a file that breaks the format: each size,
// offset and dtype is checked against the file's own size.
std::map<std::string, torch::Tensor> read_safetensors(const std::filesystem::path& file);

}  // namespace fsdp::checkpoint
