// Which bytes of a file are in use, when the disk is asked to write them, and which it is asked to read ahead.
//
// Bytes come and go about as on a stack: what was put last is taken first. Not for concurrent use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "memory/heap.h"
#include "memory/memory_file.h"

namespace fsdp::memory {

class StoredPieces {
 public:
  struct Limits {
    size_t behind = size_t{64} << 20;  // the latest bytes, which are not written yet
    size_t ahead = size_t{32} << 20;   // bytes put before the ones that are asked for
  };

  // The file is a whole one, on a disk.
  StoredPieces(MemoryFile file, Limits limits)
      : file_(std::move(file)), disk_(file_.on_disk().value()), limits_(limits) {}

  // The number of a new piece with these bytes. Throws Error, with nothing taken, where the disk has no room or fails.
  int64_t put(const void* bytes, size_t size);
  // It will be read: those put before it are asked for.
  void is_wanted(int64_t number);
  void give_back(int64_t number) noexcept;

  size_t offset_of(int64_t number) const { return pieces_.at(number).offset; }
  const MemoryFile& file() const { return file_; }
  size_t file_bytes() const { return granted_; }

 private:
  struct Piece {
    size_t offset, bytes;
    bool is_behind = true;  // the disk was not asked to write it
    bool is_ahead = false;  // the disk was asked to read it
  };
  void grant_to(size_t end);
  void write_behind();

  MemoryFile file_;
  FileOnDisk disk_;
  Limits limits_;
  Heap heap_{0, kMostFileBytes};
  size_t granted_ = 0;  // of the file, from its beginning
  std::map<int64_t, Piece> pieces_;
  int64_t next_ = 0;           // piece
  int64_t next_to_write_ = 0;  // pieces before it are written, or gone
  size_t behind_bytes_ = 0;    // of pieces that are not
};

}  // namespace fsdp::memory
