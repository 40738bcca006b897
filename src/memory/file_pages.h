// Bytes of a file on a disk that are mapped into this process: requests to the system about their pages.
//
// No request changes what is in them, or fails: the system does what it can. Any thread.
#pragma once

#include <cstddef>
#include <memory>

#include "memory/memory_file.h"

namespace fsdp::memory {

class FilePages {
 public:
  // The bytes at `begin`, in a mapping of `file` that begins at its byte `mapped_from`. They stay mapped as long as
  // this lives.
  FilePages(FileOnDisk file, std::shared_ptr<const Mapping> mapping, size_t mapped_from, char* begin, size_t bytes);

  char* begin() const { return begin_; }
  size_t bytes() const { return bytes_; }

  // They will be used soon: pages that are not in memory are read in the background.
  void read_ahead() const;
  // They will not be used for a while. The disk begins to write the changed ones in the background. They no longer
  // count as this process's memory, nor do pages mapped around them. The system keeps them in its cache while nothing
  // else needs the memory.
  void put_away() const;

 private:
  FileOnDisk file_;
  std::shared_ptr<const Mapping> mapping_;
  char* begin_;
  size_t bytes_;
  // The whole pages around them, and where these lie in the file; what else lies there is asked for with them.
  size_t page_bytes_, offset_;
  // Also the pages that the system maps with them.
  char* first_around_;
  size_t around_bytes_;
};

}  // namespace fsdp::memory
