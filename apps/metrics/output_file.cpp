#include "metrics/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fsdp/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace trainer {

namespace {

// Neither follows a link nor waits for the reader of a pipe.
int open_for_writing(const std::filesystem::path& path, int flags = 0) {
  return open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, 0666);
}

// Devices have no size, and cannot be cut.
bool cut(int descriptor, int64_t size) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return false;
  if (S_ISCHR(status.st_mode)) return size == 0;
  return S_ISREG(status.st_mode) && status.st_size >= size && ftruncate(descriptor, size) == 0;
}

// Of the first bytes from `begin`, at the same place of the other file: how many were copied, as read(2) tells it.
ssize_t copy_some(int from, int to, int64_t begin, int64_t size) {
  std::array<char, 1 << 16> bytes;
  const ssize_t count = pread(from, bytes.data(), std::min<size_t>(bytes.size(), static_cast<size_t>(size)), begin);
  return count <= 0 ? count : pwrite(to, bytes.data(), static_cast<size_t>(count), begin);
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path, int64_t size)
    : path_(path), descriptor_(open_for_writing(path)), size_(size) {
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

bool OutputFile::is_in_place() const {
  struct stat here {
  }, there{};
  return fstat(descriptor_, &here) == 0 && lstat(path_.c_str(), &there) == 0 && here.st_ino == there.st_ino &&
         here.st_dev == there.st_dev;
}

void OutputFile::restore() {
  const int fresh = open_for_writing(path_, O_EXCL);
  std::string problem = fresh < 0 ? strerror(errno) : "";
  for (int64_t done = 0; problem.empty() && done < size_;) {
    const ssize_t count = copy_some(descriptor_, fresh, done, size_ - done);
    if (count <= 0) problem = count == 0 ? "it was cut" : strerror(errno);
    done += count;
  }
  if (problem.empty()) {
    close(std::exchange(descriptor_, fresh));
    return;
  }
  if (fresh >= 0) {
    close(fresh);
    unlink(path_.c_str());
  }
  throw fsdp::Error(fmt::format("'{}' cannot be written again: {}.", path_.string(), problem));
}

}  // namespace trainer
