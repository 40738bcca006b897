#include "metrics/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fsdp/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace trainer {

namespace {

// Neither follows a link nor waits for the reader of a pipe.
int open_for_writing(const std::filesystem::path& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
}

// Devices have no size, and cannot be cut.
bool cut(int descriptor, int64_t size) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return false;
  if (S_ISCHR(status.st_mode)) return size == 0;
  return S_ISREG(status.st_mode) && status.st_size >= size && ftruncate(descriptor, size) == 0;
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path, int64_t size)
    : descriptor_(open_for_writing(path)), size_(size) {
  if (descriptor_ < 0) {
    throw fsdp::Error(fmt::format("'{}' cannot be written: {}.", path.string(),
                                  errno == ELOOP ? "it is a symbolic link" : strerror(errno)));
  }
  if (cut(descriptor_, size)) return;
  close(descriptor_);
  throw fsdp::Error(
      fmt::format("'{}' cannot be cut to its first {} bytes. Is it a file, and does no other program use it?",
                  path.string(), size));
}

OutputFile::~OutputFile() { close(descriptor_); }

std::string OutputFile::append(std::string_view bytes) {
  int64_t end = size_;
  while (!bytes.empty()) {
    const ssize_t count = pwrite(descriptor_, bytes.data(), bytes.size(), end);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return strerror(errno);
    end += count;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  size_ = end;
  return "";
}

}  // namespace trainer
