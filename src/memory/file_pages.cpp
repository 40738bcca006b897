#include "memory/file_pages.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "memory/pages.h"

namespace fsdp::memory {

namespace {

// A page that is read is mapped with all of its window that are in memory (Linux's fault_around_bytes).
constexpr size_t kWindowBytes = size_t{64} << 10;

}  // namespace

FilePages::FilePages(FileOnDisk file, std::shared_ptr<const Mapping> mapping, size_t mapped_from, char* begin,
                     size_t bytes)
    : file_(std::move(file)), mapping_(std::move(mapping)), begin_(begin), bytes_(bytes) {
  const auto at = static_cast<size_t>(begin - mapping_->base());
  const size_t first = at / kPageBytes * kPageBytes;
  const size_t end = std::min((at + bytes + kPageBytes - 1) / kPageBytes * kPageBytes, mapping_->bytes());
  page_bytes_ = end - first;
  offset_ = mapped_from + first;
  const auto base = reinterpret_cast<uintptr_t>(mapping_->base());
  const uintptr_t begin_around = std::max(base, (base + first) / kWindowBytes * kWindowBytes);
  const uintptr_t end_around = (base + end + kWindowBytes - 1) / kWindowBytes * kWindowBytes;
  first_around_ = reinterpret_cast<char*>(begin_around);
  around_bytes_ = std::min(end_around, base + mapping_->bytes()) - begin_around;
}

void FilePages::read_ahead() const { file_.reads->add(file_.file, offset_, page_bytes_); }

// A page that is not mapped any more still has what was written to it. The disk would write these pages half a minute
// later anyway, or when memory is short and a process waits.
void FilePages::put_away() const {
  if (page_bytes_ == 0) return;
  file_.reads->cancel(file_.file, offset_, page_bytes_);
  madvise(first_around_, around_bytes_, MADV_DONTNEED);
  sync_file_range(file_.file->number(), static_cast<off_t>(offset_), static_cast<off_t>(page_bytes_),
                  SYNC_FILE_RANGE_WRITE);
}

}  // namespace fsdp::memory
