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

std::filesystem::path parent_of(const std::filesystem::path& path) {
  return path.parent_path().empty() ? "." : path.parent_path();
}

// Where the file system cannot exchange names in one step: at any moment the old directory is whole, at its place or at
// `aside`.
void exchange_by_renaming(const std::filesystem::path& partial, const std::filesystem::path& target,
                          const std::filesystem::path& aside) {
  std::filesystem::remove_all(aside);
  std::filesystem::rename(target, aside);
  try {
    std::filesystem::rename(partial, target);
  } catch (...) {
    std::filesystem::rename(aside, target);
    throw;
  }
  std::filesystem::rename(aside, partial);
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
  std::filesystem::path aside = partial;
  aside += "-replaced";
  sync_directory(partial);
  if (!std::filesystem::exists(target)) {
    std::filesystem::rename(partial, target);
  } else if (renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL) fail(target, "cannot be replaced");
    exchange_by_renaming(partial, target, aside);
  }
  sync_directory(parent_of(target));
  std::filesystem::remove_all(partial);  // what was replaced
  std::filesystem::remove_all(aside);    // or what a process left that died while it did so
}

void commit_file(const std::filesystem::path& partial, const std::filesystem::path& target) {
  std::filesystem::rename(partial, target);
  sync_directory(parent_of(target));
}

}  // namespace fsdp::checkpoint
