#include "data/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fsdp/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "data/pending_folder.h"

namespace data {

namespace fs = std::filesystem;

namespace {
constexpr size_t kBufferBytes = size_t{1} << 20;
}

DurableFile::DurableFile(const fs::path& file, std::string_view what)
    : file_(file),
      temporary_(fmt::format("{}.partial-{}", file.string(), getpid())),
      name_(fmt::format("{} '{}'", what, file.string())),
      descriptor_(open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) fail();
}

DurableFile::~DurableFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void DurableFile::append(std::string_view bytes) {
  buffer_.append(bytes);
  if (buffer_.size() >= kBufferBytes) flush();
}

void DurableFile::overwrite_beginning(std::string_view bytes) {
  flush();
  write(bytes, 0);
}

void DurableFile::commit() {
  flush();
  if (fsync(descriptor_) != 0 || std::rename(temporary_.c_str(), file_.c_str()) != 0) fail();
  close(descriptor_);
  descriptor_ = -1;
  sync_folder(file_.has_parent_path() ? file_.parent_path() : ".");
}

void DurableFile::flush() {
  write(buffer_, written_);
  written_ += static_cast<int64_t>(buffer_.size());
  buffer_.clear();
}

void DurableFile::write(std::string_view bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail();
    bytes.remove_prefix(static_cast<size_t>(count));
    offset += count;
  }
}

void DurableFile::fail() const {
  const int error = errno;
  const char* advice = error == ENOSPC || error == EDQUOT ? "Free some space, or name a folder on another disk"
                                                          : "Name a folder that can be written";
  throw fsdp::Error(fmt::format("{} cannot be written: {} (after {} bytes). {}; nothing was left there.", name_,
                                std::strerror(error), written_, advice));
}

}  // namespace data
