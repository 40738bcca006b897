// Writes what torch.load reads, with weights_only too: a zip file with a pickle of nested dicts and a storage for each
// tensor (torch_file.h has its parts).
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "files/durable_file.h"
#include "formats/zip_writer.h"

namespace fsdp::formats {

// At the end of `file`, which outlives this and is the caller's to close. One thread at a time. Throws Error naming the
// file.
class TorchFileWriter {
 public:
  struct Tensor {
    std::vector<std::string> path;  // keys of dicts; empty: the file holds this tensor alone
    torch::ScalarType type = torch::kFloat32;
    std::vector<int64_t> shape = {};
    std::optional<size_t> same_as = {};  // an earlier one, whose storage it has
  };

  // `numbers` stand in the outermost dict. Throws Error where a tensor would lie within another one.
  TorchFileWriter(files::DurableFile& file, const std::vector<Tensor>& tensors,
                  const std::map<std::string, int64_t>& numbers);

  // The next tensor that does not equal an earlier one.
  void write(const torch::Tensor& tensor);
  void finish();

 private:
  ZipWriter zip_;
  size_t written_ = 0;
};

}  // namespace fsdp::formats
