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

#include "files/same_file.h"

namespace trainer {

namespace {

// Neither follows a link nor waits for the reader of a pipe.
int open_for_writing(const std::filesystem::path& path) {
  return open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
}

// Devices have no size, and cannot be cut.
bool cut(int descriptor, int64_t size) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return false;
  if (S_ISCHR(status.st_mode)) return size == 0;
  return S_ISREG(status.st_mode) && status.st_size >= size && ftruncate(descriptor, size) == 0;
}

using Piece = std::array<char, 1 << 16>;

// As pread(2), and not interrupted.
ssize_t read_at(int descriptor, Piece& bytes, int64_t begin, int64_t size) {
  ssize_t count;
  do {
    count = pread(descriptor, bytes.data(), std::min(bytes.size(), static_cast<size_t>(size)), begin);
  } while (count < 0 && errno == EINTR);
  return count;
}

// Copies some of the first bytes from `begin` to `end` to the same place of the other file. Returns why none could be
// copied; empty: `begin` is behind them.
std::string copy_some(int from, int to, int64_t& begin, int64_t end) {
  Piece bytes;
  const ssize_t count = read_at(from, bytes, begin, end - begin);
  if (count <= 0) return count == 0 ? "it was cut" : strerror(errno);
  ssize_t written;
  do {
    written = pwrite(to, bytes.data(), static_cast<size_t>(count), begin);
  } while (written < 0 && errno == EINTR);
  if (written < 0) return strerror(errno);
  begin += written;
  return "";
}

// True if `file` has `size` bytes at most, which are those at the beginning of `whole`.
bool is_beginning_of(int whole, int file, int64_t size) {
  struct stat status {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > size) return false;
  Piece here, there;
  for (int64_t at = 0; at < status.st_size;) {
    const ssize_t count = read_at(file, there, at, status.st_size - at);
    if (count <= 0 || read_at(whole, here, at, count) != count) return false;
    if (std::memcmp(here.data(), there.data(), static_cast<size_t>(count)) != 0) return false;
    at += count;
  }
  return true;
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

bool OutputFile::is_in_place() const { return fsdp::files::leads_to(path_, descriptor_); }

bool OutputFile::is_replaced() const {
  const int there = open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (there < 0) return errno != ENOENT && errno != ENOTDIR;
  const bool is_other = !is_in_place() && !is_beginning_of(descriptor_, there, size_);
  close(there);
  return is_other;
}

void OutputFile::restore() {
  if (is_in_place()) return;
  const int there = open_for_writing(path_);
  std::string problem = there < 0 ? strerror(errno) : "";
  if (problem.empty() && !is_beginning_of(descriptor_, there, size_)) problem = "another file is there";
  struct stat status {};
  if (problem.empty() && fstat(there, &status) != 0) problem = strerror(errno);
  for (int64_t done = status.st_size; problem.empty() && done < size_;) {
    problem = copy_some(descriptor_, there, done, size_);
  }
  if (problem.empty()) {
    close(std::exchange(descriptor_, there));
    return;
  }
  if (there >= 0) close(there);
  throw fsdp::Error(fmt::format("'{}' cannot be written again: {}.", path_.string(), problem));
}

}  // namespace trainer
