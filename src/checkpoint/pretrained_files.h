// The files of a Hugging Face model: model.safetensors, or several with model.safetensors.index.json beside them, which
// says in its weight_map which tensor lies in which file.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace fsdp::checkpoint {

inline constexpr const char* kModelName = "model.safetensors";
inline constexpr const char* kIndexName = "model.safetensors.index.json";

// Open for reading; all headers are read.
class PretrainedFiles {
 public:
  struct Tensor {
    SafetensorsFile* file;
    const SafetensorsFile::Entry* entry;
  };

  // A folder with either, or one of these files: a name that ends with .json is an index. Throws Error naming what is
  // damaged or missing. The files of an index lie beside it: names that lead elsewhere are refused.
  explicit PretrainedFiles(const std::filesystem::path& path);

  const std::map<std::string, Tensor>& tensors() const { return tensors_; }  // by name

 private:
  void open(const std::filesystem::path& file);
  void open_indexed(const std::filesystem::path& index);

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace fsdp::checkpoint
