// A file that is written through to the system at once, and whose writer learns how much of it is safe there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace trainer {

// One thread at a time.
class OutputFile {
 public:
  // Opens `path`, makes it where it is not there, and keeps its first `size` bytes. Throws fsdp::Error, also where the
  // file is shorter, and for what is neither a regular file nor a device: a symbolic link is not followed.
  OutputFile(const std::filesystem::path& path, int64_t size);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Adds `bytes` at the end: all of them, or none that count; then the next call writes over what half of them left.
  // Returns why none could be written, "No space left on device" say; empty: they are written.
  [[nodiscard]] std::string append(std::string_view bytes);

  // True if its path still leads to it. It may have been removed or moved.
  bool is_in_place() const;
  // True if another file is at its path, and none that begins with the same bytes, such as a copy of an earlier state.
  bool is_replaced() const;
  // Goes on in a file at its path: a new one, or the copy that is there. Either has all bytes afterwards. Throws
  // fsdp::Error where that cannot be, and goes on in the old one.
  void restore();

 private:
  std::filesystem::path path_;
  int descriptor_;
  int64_t size_;
};

}  // namespace trainer
