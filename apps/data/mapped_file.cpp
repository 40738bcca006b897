#include "data/mapped_file.h"

#include <fmt/format.h>
#include <fsdp/error.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "files/printable.h"
#include "files/reading.h"

namespace data {

namespace {

[[noreturn]] void has_shrunk(const std::string& name, size_t expected, const std::string& found) {
  throw fsdp::Error(
      fmt::format("{} has shrunk from {} {} since it was opened. Leave the data as it is while it is read, and start "
                  "again.",
                  name, expected, found));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, std::string_view what)
    : path_(path), name_(fmt::format("{} '{}'", what, fsdp::files::printable(path.string()))) {
  const fsdp::files::OpenFile file = fsdp::files::open_regular(path_, name_);
  struct stat status {};
  fstat(file.descriptor.number(), &status);  // of an open file it does not fail
  device_ = status.st_dev;
  inode_ = status.st_ino;
  written_ = status.st_mtim.tv_sec;
  size_ = static_cast<size_t>(file.bytes);
  if (size_ == 0) throw fsdp::Error(fmt::format("{} is empty.", name_));
  memory_ = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.descriptor.number(), 0);
  if (memory_ == MAP_FAILED) {
    throw fsdp::Error(fmt::format("{} cannot be read: {}.", name_, std::strerror(errno)));
  }
  watched_ = watch(memory_, size_);
}

MappedFile::~MappedFile() {
  give_up(watched_);
  munmap(memory_, size_);
}

void MappedFile::release() const { madvise(memory_, size_, MADV_DONTNEED); }

void MappedFile::check() const {
  struct stat status {};
  // A file that is mapped stays whole without its name.
  const bool is_there = stat(path_.c_str(), &status) == 0 && status.st_ino == inode_ && status.st_dev == device_;
  // The rest of a page in which the file now ends reads as zeros, and raises nothing.
  if (is_there && static_cast<size_t>(status.st_size) < size_) {
    has_shrunk(name_, size_, fmt::format("to {} bytes", status.st_size));
  }
  // Its name is gone, or it has grown again.
  if (watched_->has_shrunk.load()) has_shrunk(name_, size_, "bytes");
}

}  // namespace data
