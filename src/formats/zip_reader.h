// Zip files as PyTorch writes them: entries with tensors are stored and not compressed, all in one file
// (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.3 to 4.5).
//
// Such a file may lie within another one: a distributed checkpoint has one for each piece of a tensor. Files come from
// strangers: every size and offset is checked against the file's own before anything is allocated, entries neither
// overlap nor lie outside, and names are for looking up alone. Compressed entries are not read, so no little file
// becomes a large one. Free to call from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "files/reading.h"

namespace fsdp::formats {

class ZipReader {
 public:
  struct Entry {
    int64_t header = 0;  // where its own header begins, in the zip file
    int64_t bytes = 0;   // that it takes there
    uint32_t crc = 0;
    bool is_stored = true;  // and not compressed, as the code of an archive may be
  };

  // Reads the `bytes` of `file` from `begin` on; the file outlives this. `name` begins the messages. Throws Error for
  // what is no zip file, or is damaged.
  ZipReader(const files::OpenFile& file, int64_t begin, int64_t bytes, std::string name);

  const std::map<std::string, Entry>& entries() const { return entries_; }  // by name
  const std::string& name() const { return name_; }

  // Where the entry's own bytes begin, in the file. Throws Error where it is compressed, or its header is another one.
  int64_t data_of(const std::string& entry) const;
  // The entry as a whole, of `most` bytes at most, compared with its checksum.
  std::string read(const std::string& entry, int64_t most) const;

 private:
  struct Directory {
    int64_t begin = 0, bytes = 0, entries = 0;
  };
  Directory find_directory() const;
  Directory zip64_directory(int64_t end_record) const;
  void read_entries(const Directory& directory);
  std::string bytes_at(int64_t offset, int64_t size) const;

  const files::OpenFile& file_;
  int64_t begin_, bytes_;
  int64_t data_end_ = 0;  // where the directory begins
  std::string name_;
  std::map<std::string, Entry> entries_;
};

}  // namespace fsdp::formats
