#include "files/reading.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "fsdp/error.h"

namespace fsdp::files {

namespace {

[[noreturn]] void fail(const std::string& name, int error) {
  throw Error(fmt::format("{} cannot be read: {}.", name, std::strerror(error)));
}

}  // namespace

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Descriptor::~Descriptor() { close(); }

int Descriptor::close() { return number_ < 0 ? 0 : ::close(std::exchange(number_, -1)); }

OpenFile open_regular(const std::filesystem::path& path, const std::string& name) {
  // Without O_NONBLOCK, opening a pipe waits for its writer.
  OpenFile file{Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)), 0};
  struct stat status {};
  if (!file.descriptor.is_open() || fstat(file.descriptor.number(), &status) != 0) fail(name, errno);
  if (!S_ISREG(status.st_mode)) throw Error(fmt::format("{} cannot be read: it is not a regular file.", name));
  file.bytes = status.st_size;
  return file;
}

void read_exactly(const OpenFile& file, int64_t offset, void* bytes, size_t size, const std::string& name) {
  auto* next = static_cast<char*>(bytes);
  while (size > 0) {
    const ssize_t count = pread(file.descriptor.number(), next, size, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(name, errno);
    if (count == 0) throw Error(fmt::format("{} ends at byte {}, {} bytes too early. Was it cut?", name, offset, size));
    next += count;
    offset += count;
    size -= static_cast<size_t>(count);
  }
}

std::string read_whole(const std::filesystem::path& path, const std::string& name, int64_t most) {
  const OpenFile file = open_regular(path, name);
  if (file.bytes > most) {
    throw Error(
        fmt::format("{} has {} bytes, expected at most {}. Is it another kind of file?", name, file.bytes, most));
  }
  std::string bytes(static_cast<size_t>(file.bytes), '\0');
  read_exactly(file, 0, bytes.data(), bytes.size(), name);
  return bytes;
}

}  // namespace fsdp::files
