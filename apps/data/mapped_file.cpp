#include "data/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fsdp/error.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace data {

namespace {

[[noreturn]] void fail(const std::string& name, int error) {
  if (error == ENOENT) throw fsdp::Error(fmt::format("{} does not exist.", name));
  throw fsdp::Error(fmt::format("{} cannot be read: {}.", name, std::strerror(error)));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, std::string_view what)
    : path_(path), name_(fmt::format("{} '{}'", what, path.string())) {
  struct stat status {};
  // Asked before it is opened: to open a pipe would wait for its writer.
  if (stat(path_.c_str(), &status) != 0) fail(name_, errno);
  if (!S_ISREG(status.st_mode)) throw fsdp::Error(fmt::format("{} is not a regular file.", name_));
  const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(name_, errno);
  fstat(descriptor, &status);  // as it is now; of an open file it does not fail
  size_ = static_cast<size_t>(status.st_size);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  memory_ = size_ > 0 ? mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0) : nullptr;
  const int error = errno;
  close(descriptor);
  if (size_ == 0) throw fsdp::Error(fmt::format("{} is empty.", name_));
  if (memory_ == MAP_FAILED) fail(name_, error);
}

MappedFile::~MappedFile() { munmap(memory_, size_); }

void MappedFile::check() const {
  struct stat status {};
  if (stat(path_.c_str(), &status) != 0) return;  // a file that is mapped stays whole without its name
  if (status.st_ino != inode_ || status.st_dev != device_) return;
  const auto found = static_cast<size_t>(status.st_size);
  if (found >= size_) return;
  throw fsdp::Error(
      fmt::format("{} has shrunk from {} to {} bytes since it was opened. Leave the data as it is while it is "
                  "read, and start again.",
                  name_, size_, found));
}

}  // namespace data
