#include "files/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "files/partial_names.h"
#include "files/size_limit.h"
#include "fsdp/error.h"

namespace fsdp::files {

namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
// So much at a time is on its way to the disk while more is written: `close` waits for what is left.
constexpr int64_t kBegunBytes = int64_t{2} << 20;

// A file of a killed process with this number does no harm. A link here is removed, and its target stays.
std::filesystem::path without_leftover(std::filesystem::path partial) {
  unlink(partial.c_str());
  return partial;
}

// A rename would replace a device or a pipe by a file, which is never intended. A link is replaced as a link.
std::filesystem::path replaceable(std::filesystem::path path) {
  struct stat status {};
  const bool is_special = lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode);
  if (is_special) throw Error(fmt::format("'{}' is not a regular file, and is not replaced.", path.string()));
  return path;
}

std::string advice(int error) {
  return error == ENOSPC || error == EDQUOT ? " Free some space, or name a place on another disk." : "";
}

}  // namespace

DurableFile::DurableFile(const std::filesystem::path& path, std::string name)
    : path_(path),
      name_(name.empty() ? fmt::format("'{}'", path.string()) : std::move(name)),
      descriptor_(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644)) {
  if (!descriptor_.is_open()) fail("cannot be created");
}

DurableFile::~DurableFile() {
  if (descriptor_.is_open()) unlink(path_.c_str());
}

void DurableFile::append(const void* bytes, size_t size) {
  if (buffer_.size() + size > kBufferBytes) flush();
  if (size < kBufferBytes) {
    buffer_.append(static_cast<const char*>(bytes), size);
  } else {
    write(static_cast<const char*>(bytes), size, bytes_);
  }
  bytes_ += static_cast<int64_t>(size);
  begin_writeback();
}

// Errors are told by the sync.
void DurableFile::begin_writeback() {
  const int64_t written = bytes_ - static_cast<int64_t>(buffer_.size());
  if (written - begun_ < kBegunBytes) return;
  sync_file_range(descriptor_.number(), begun_, written - begun_, SYNC_FILE_RANGE_WRITE);
  begun_ = written;
}

void DurableFile::overwrite_beginning(std::string_view bytes) {
  flush();
  write(bytes.data(), bytes.size(), 0);
}

void DurableFile::flush() {
  write(buffer_.data(), buffer_.size(), bytes_ - static_cast<int64_t>(buffer_.size()));
  buffer_.clear();
}

void DurableFile::write(const char* bytes, size_t size, int64_t offset) {
  const SizeLimitIsAnError limit;
  while (size > 0) {
    const ssize_t count = pwrite(descriptor_.number(), bytes, size, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("cannot be written");
    bytes += count;
    offset += count;
    size -= static_cast<size_t>(count);
  }
}

void DurableFile::close() {
  flush();
  if (fsync(descriptor_.number()) != 0) fail("cannot be synced to the disk");
  if (descriptor_.close() == 0) return;
  const int error = errno;
  unlink(path_.c_str());
  errno = error;
  fail("cannot be closed");
}

void DurableFile::fail(const char* what) const {
  const int error = errno;
  throw Error(fmt::format("{} {}: {} (after {} bytes).{}", name_, what, std::strerror(error), bytes_, advice(error)));
}

ReplacedFile::ReplacedFile(std::filesystem::path path, std::string name)
    : path_(replaceable(std::move(path))),
      partial_(without_leftover(fmt::format("{}{}{}", path_.string(), kPartialSuffix, getpid()))),
      name_(name.empty() ? fmt::format("'{}'", path_.string()) : std::move(name)),
      file_(partial_, name_) {}

void ReplacedFile::commit() {
  file_.close();
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(partial_.c_str());
    throw Error(fmt::format("{} cannot be put in place: {}.", name_, std::strerror(error)));
  }
  sync_directory(parent_of(path_));
}

std::string target_of_unfinished(std::string_view name) {
  const size_t at = name.rfind(kPartialSuffix);
  if (at == std::string_view::npos) return "";
  const std::string_view number = name.substr(at + kPartialSuffix.size());
  const bool is_number = !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
  return is_number ? std::string(name.substr(0, at)) : "";
}

void write_durably(const std::filesystem::path& path, std::string_view bytes) {
  ReplacedFile replaced(path);
  replaced.file().append(bytes);
  replaced.commit();
}

void sync_directory(const std::filesystem::path& path) {
  const Descriptor directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.is_open() && fsync(directory.number()) == 0) return;
  throw Error(fmt::format("directory '{}' cannot be synced to the disk: {}.", path.string(), std::strerror(errno)));
}

void make_directories(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw Error(fmt::format("directory '{}' cannot be made: {}.", path.string(), error.message()));
  std::filesystem::path above = parent_of(path);
  for (std::filesystem::path last; above != last; above = parent_of(above)) {
    const Descriptor directory(open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.is_open() && fsync(directory.number()) != 0 && errno != EINVAL && errno != EROFS) {
      throw Error(
          fmt::format("directory '{}' cannot be synced to the disk: {}.", above.string(), std::strerror(errno)));
    }
    last = above;
  }
}

std::filesystem::path parent_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace fsdp::files
