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
#include "checkpoint/safetensors_header.h"
#include "files/durable_file.h"
#include "files/reading.h"

namespace fsdp::checkpoint {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

// Hashes in a file: one for each block of kHashBlockBytes of each tensor, counted from its first byte, in the order of
// the tensors' bytes and joined to one text of the metadata. The last block of a tensor may be shorter.
inline constexpr int64_t kHashBlockBytes = int64_t{1} << 20;  // hashed while it is in the cache
inline constexpr const char* kHashesName = "xxh3_128_of_each_MiB";
enum class Hashes { None, InHeader };

// Writes a file tensor by tensor, for who cannot hold all of them. Throws Error naming the file.
class SafetensorsWriter {
 public:
  using Announced = AnnouncedTensor;

  // Writes the header to `file`, which is empty and outlives this; `name` is how errors call it. Readers want the
  // tensors of the widest elements first: then each is aligned.
  SafetensorsWriter(files::DurableFile& file, const std::string& name, const std::vector<Announced>& tensors,
                    std::map<std::string, std::string> metadata, Hashes hashes = Hashes::None);

  void write(const torch::Tensor& tensor);  // the next one of those announced
  // After the last tensor: puts the hashes in place, and closes and syncs the file.
  WrittenFile close();

 private:
  files::DurableFile& file_;
  std::string beginning_;  // length and header, with zeros for the hashes where there are any
  bool has_hashes_;
  std::string hashes_;  // of what was written so far
};

// Writes a new file and syncs it. Throws Error naming the file when it cannot, for example on a full disk.
WrittenFile write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors,
                              const std::map<std::string, std::string>& metadata, Hashes hashes = Hashes::None);

// A file that is open for reading, its header read and checked: each size, offset and dtype against the file's own
// size, before anything is allocated. Throws Error naming the file.
class SafetensorsFile {
 public:
  using Entry = SafetensorsEntry;

  // `saved`, where it is given: what was written; the size and the header's hash are compared before the header is
  // parsed. An empty hash is not.
  explicit SafetensorsFile(const std::filesystem::path& path, const WrittenFile* saved = nullptr);

  const std::string& name() const { return name_; }
  const std::vector<Entry>& entries() const { return header_.entries; }  // in the order of their bytes
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  int64_t bytes() const { return file_.bytes; }
  torch::Tensor read(const Entry& entry) const;
  // `numel` elements of the entry's, from number `first` on, in row-major order; 1-D. They have to be there.
  torch::Tensor read(const Entry& entry, int64_t first, int64_t numel) const;
  // `size` bytes of the entry's, from byte `begin` on.
  void read_bytes(const Entry& entry, int64_t begin, int64_t size, void* into) const;
  std::string hash_of_all_bytes() const;  // reads the whole file

 private:
  void read_at(int64_t offset, void* into, int64_t size) const;

  std::string name_;
  files::OpenFile file_;
  int64_t data_begin_ = 0;
  SafetensorsHeader header_;
};

// Everything in the file, checked as above.
std::map<std::string, torch::Tensor> read_safetensors(const std::filesystem::path& file);

}  // namespace fsdp::checkpoint
