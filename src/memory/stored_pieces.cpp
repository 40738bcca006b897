#include "memory/stored_pieces.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "memory/pages.h"

namespace fsdp::memory {

namespace {

void write_all(int descriptor, const char* bytes, size_t size, size_t offset) {
  while (size > 0) {
    const ssize_t written = pwrite(descriptor, bytes, size, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    FSDP_CHECK(written > 0,
               "offload_directory: {} bytes of activations could not be written: {}. Name a folder on "
               "another disk.",
               size, std::strerror(written < 0 ? errno : EIO));
    bytes += written;
    size -= static_cast<size_t>(written);
    offset += static_cast<size_t>(written);
  }
}

}  // namespace

// Written by calls and not through a mapping: the pages are never this process's, and a disk that fails is an error.
int64_t StoredPieces::put(const void* bytes, size_t size) {
  const std::optional<size_t> offset = heap_.take(size);
  FSDP_INVARIANT(offset, "{} bytes of activations are more than a file has", size);
  try {
    grant_to(*offset + size);
    write_all(file_.descriptor(), static_cast<const char*>(bytes), size, *offset);
  } catch (...) {
    heap_.give_back(*offset);
    throw;
  }
  const int64_t number = next_++;
  pieces_.emplace(number, Piece{.offset = *offset, .bytes = size});
  behind_bytes_ += size;
  write_behind();
  return number;
}

void StoredPieces::grant_to(size_t end) {
  const size_t whole = whole_pages(end);
  if (whole <= granted_) return;
  file_.grant(granted_, whole - granted_);
  granted_ = whole;
}

void StoredPieces::write_behind() {
  while (behind_bytes_ > limits_.behind) {
    const auto oldest = pieces_.lower_bound(next_to_write_);
    next_to_write_ = oldest->first + 1;
    Piece& piece = oldest->second;
    sync_file_range(file_.descriptor(), static_cast<off_t>(piece.offset), static_cast<off_t>(piece.bytes),
                    SYNC_FILE_RANGE_WRITE);
    piece.is_behind = false;
    behind_bytes_ -= piece.bytes;
  }
}

void StoredPieces::is_wanted(int64_t number) {
  size_t ahead = 0;
  for (auto at = pieces_.find(number); at != pieces_.begin();) {
    Piece& piece = (--at)->second;
    ahead += piece.bytes;
    if (ahead > limits_.ahead) return;
    // Unwritten pieces are in memory.
    if (piece.is_behind || piece.is_ahead) continue;
    disk_.reads->add(disk_.file, piece.offset, piece.bytes);
    piece.is_ahead = true;
  }
}

void StoredPieces::give_back(int64_t number) noexcept {
  const auto found = pieces_.find(number);
  if (found->second.is_behind) behind_bytes_ -= found->second.bytes;
  if (found->second.is_ahead) disk_.reads->cancel(disk_.file, found->second.offset, found->second.bytes);
  heap_.give_back(found->second.offset);
  pieces_.erase(found);
}

}  // namespace fsdp::memory
