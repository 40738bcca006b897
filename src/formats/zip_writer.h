// Writes zip files as PyTorch does: entries are stored, and their bytes begin at multiples of 64, so that readers can
// map them. Files and entries may have any size (zip64).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "files/durable_file.h"

namespace fsdp::formats {

// A zip file at the end of `file`, which outlives this; several may follow each other there. One thread at a time.
// Throws Error naming the file.
class ZipWriter {
 public:
  explicit ZipWriter(files::DurableFile& file) : file_(file), begin_(file.bytes()) {}

  void add(const std::string& name, const void* bytes, size_t size);
  void add(const std::string& name, std::string_view bytes) { add(name, bytes.data(), bytes.size()); }
  // After the last entry. The file itself is the caller's to close.
  void finish();

 private:
  struct Entry {
    std::string name;
    int64_t header, bytes;
    uint32_t crc;
  };
  int64_t offset() const { return file_.bytes() - begin_; }

  files::DurableFile& file_;
  int64_t begin_;
  std::vector<Entry> entries_;
};

}  // namespace fsdp::formats
