// The header of a file in the safetensors format: a JSON object with the dtype, the shape and the place of each tensor.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fsdp::checkpoint {

inline constexpr int64_t kLongestHeader = 100'000'000;  // bytes, as the reference implementation
inline constexpr int64_t kLengthBytes = 8;              // of the number before it

// As the format calls it: "F32". Throws Error for a dtype that it does not have.
std::string dtype_name(torch::ScalarType type);

// A tensor of a file to write.
struct AnnouncedTensor {
  std::string name;
  torch::ScalarType type;
  std::vector<int64_t> shape;
  int64_t bytes() const;
};

// Its length and the header itself, padded to a multiple of 8 bytes; the tensors' bytes follow in this order. `file`
// begins the messages. Throws Error for two tensors of one name and for what is not UTF-8.
std::string header_text(const std::string& file, const std::vector<AnnouncedTensor>& tensors,
                        const std::map<std::string, std::string>& metadata);

// A tensor of a file that is read.
struct SafetensorsEntry {
  std::string name;
  torch::ScalarType type;
  std::vector<int64_t> shape;
  int64_t begin, end;  // of its bytes, behind the header
  int64_t bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        // in the order of their bytes
  std::map<std::string, std::string> metadata;  // what of it is text by name; other files may hold anything
};

// `text` is without its length. Throws Error for tensors that leave a hole, overlap, or do not end where `data_bytes`
// do.
SafetensorsHeader parse_header(const std::string& file, const std::string& text, int64_t data_bytes);

}  // namespace fsdp::checkpoint
