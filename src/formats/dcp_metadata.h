// The file .metadata of PyTorch's distributed checkpoints (torch.distributed.checkpoint, "DCP"): a pickle of
// dataclasses that says which tensors there are, into which chunks each is cut, and where each chunk lies in the files
// beside it.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "formats/state_names.h"

namespace fsdp::formats {

inline constexpr const char* kDcpMetadataName = ".metadata";

struct DcpMetadata {
  // A box of a tensor's elements: a file of torch.save within `file`.
  struct Chunk {
    std::vector<int64_t> offsets, sizes;
    std::string file = {};  // a bare name
    int64_t begin = 0, bytes = 0;
  };
  struct Tensor {
    std::string name;  // as DCP calls it
    StatePath path;    // from the outermost dict; empty where the metadata does not say
    torch::ScalarType type = torch::kFloat32;
    std::vector<int64_t> shape = {};
    std::vector<Chunk> chunks = {};
  };
  std::vector<Tensor> tensors;
  size_t others = 0;  // values that are no tensors
};

// Throws Error, beginning with `name`, for what is no such pickle or is damaged. Chunks make up their tensors, without
// overlapping; no two lie in the same bytes; and names of files are bare.
DcpMetadata parse_dcp_metadata(std::string bytes, const std::string& name);
// The contents of a folder's .metadata.
DcpMetadata read_dcp_metadata(const std::filesystem::path& folder);

// The pickle, as Python's reader takes it. Chunks have to be whole tensors.
std::string dcp_metadata_text(const DcpMetadata& metadata);

}  // namespace fsdp::formats
