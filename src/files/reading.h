// How files that a stranger may have made are opened: nothing waits, nothing is read beyond a limit.
//
// Free to call from any thread. Errors are fsdp::Error, name the file and have no prefix: apps/ uses this room too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace fsdp::files {

// An open file descriptor. Movable; closes it.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  // Gives back what close(2) does, which tells of writes that failed late.
  int close();

 private:
  int number_;
};

struct OpenFile {
  Descriptor descriptor;
  int64_t bytes = 0;  // when it was opened
};

// A regular file, for reading; symbolic links are followed. A pipe or a device is an error, and is not waited for.
// `name` begins the messages: "config 'model/config.json'".
OpenFile open_regular(const std::filesystem::path& path, const std::string& name);

// Reads exactly `size` bytes from byte `offset` on. An error where the file ends before.
void read_exactly(const OpenFile& file, int64_t offset, void* bytes, size_t size, const std::string& name);

// The whole file, of at most `most` bytes.
std::string read_whole(const std::filesystem::path& path, const std::string& name, int64_t most);

}  // namespace fsdp::files
