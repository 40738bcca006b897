#include "checkpoint/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace fsdp::checkpoint {

namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw_error(message_prefix() + fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
}

void sync_directory(const std::filesystem::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) fail(path, "cannot be opened");
  const int result = fsync(descriptor);
  ::close(descriptor);
  if (result != 0) fail(path, "cannot be synced");
}

}  // namespace

DurableFile::DurableFile(const std::filesystem::path& path)
    : path_(path), descriptor_(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) fail(path_, "cannot be created");
}

DurableFile::~DurableFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void DurableFile::write(const void* bytes, size_t size) {
  const auto* next = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = ::write(descriptor_, next, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "cannot be written");
    next += written;
    size -= static_cast<size_t>(written);
  }
}

void DurableFile::close() {
  if (fsync(descriptor_) != 0) fail(path_, "cannot be synced");
  const int result = ::close(descriptor_);
  descriptor_ = -1;
  if (result != 0) fail(path_, "cannot be closed");
}

void commit_directory(const std::filesystem::path& partial, const std::filesystem::path& target) {
  sync_directory(partial);
  bool exchanged = false;
  if (std::filesystem::exists(target)) {
    // In one step, so that a complete checkpoint has this name at any time.
    exchanged = renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0;
    if (!exchanged && errno != EINVAL) fail(target, "cannot be replaced");
    if (!exchanged) std::filesystem::remove_all(target);  // this file system cannot exchange names
  }
  if (!exchanged) std::filesystem::rename(partial, target);
  sync_directory(target.parent_path().empty() ? "." : target.parent_path());
  std::filesystem::remove_all(partial);  // what was replaced
}

void commit_file(const std::filesystem::path& partial, const std::filesystem::path& target) {
  std::filesystem::rename(partial, target);
  sync_directory(target.parent_path().empty() ? "." : target.parent_path());
}

}  // namespace fsdp::checkpoint
