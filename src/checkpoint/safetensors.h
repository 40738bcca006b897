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

#include "checkpoint/manifest.h"
#include "files/content_hash.h"
#include "files/durable_file.h"
#include "files/reading.h"

namespace fsdp::checkpoint {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

// Writes a new file and syncs it. Throws Error naming the file when it cannot, for example on a full disk.
WrittenFile write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors,
                              const std::map<std::string, std::string>& metadata);

// Writes a file tensor by tensor, for who cannot hold all of them. Throws Error naming the file.
class SafetensorsWriter {
 public:
  struct Announced {
    std::string name;
    torch::ScalarType type;
    std::vector<int64_t> shape;
  };

  // Writes the header to `file`, which is empty and outlives this; `name` is how errors call it. Readers want the
  // tensors of the widest elements first: then each is aligned.
  SafetensorsWriter(files::DurableFile& file, const std::string& name, const std::vector<Announced>& tensors,
                    const std::map<std::string, std::string>& metadata);

  void write(const torch::Tensor& tensor);                  // the next one of those announced
  std::string hash() const { return hash_.hexadecimal(); }  // of what was written so far

 private:
  void append(const void* bytes, size_t size);

  files::DurableFile& file_;
  files::ContentHash hash_;
};

// A file that is open for reading, its header read and checked: each size, offset and dtype against the file's own
// size, before anything is allocated. From one thread at a time. Throws Error naming the file.
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    torch::ScalarType type;
    std::vector<int64_t> shape;
    int64_t begin, end;  // of its bytes, behind the header
  };

  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::vector<Entry>& entries() const { return entries_; }  // in the order of their bytes
  int64_t bytes() const { return file_.bytes; }
  torch::Tensor read(const Entry& entry) const;
  // `numel` elements of the entry's, from number `first` on, in row-major order; 1-D. They have to be there.
  torch::Tensor read(const Entry& entry, int64_t first, int64_t numel) const;
  // Reads the whole file once: the tensors of `wanted` entries, in their order, and the hash of all bytes.
  std::pair<std::vector<torch::Tensor>, std::string> read_with_hash(const std::vector<const Entry*>& wanted) const;

 private:
  void read_bytes(int64_t offset, void* into, int64_t size) const;

  std::string name_;
  files::OpenFile file_;
  int64_t data_begin_ = 0;
  std::vector<Entry> entries_;
};

// Everything in the file, checked as above.
std::map<std::string, torch::Tensor> read_safetensors(const std::filesystem::path& file);

}  // namespace fsdp::checkpoint
