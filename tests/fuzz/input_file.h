// An input as a file, for readers that open one.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace fsdp::fuzz {

// In memory; gone with this.
class InputFile {
 public:
  explicit InputFile(std::string_view input) : descriptor_(memfd_create("input", MFD_CLOEXEC)) {
    if (descriptor_ < 0 || write(descriptor_, input.data(), input.size()) != static_cast<ssize_t>(input.size()))
      abort();
  }
  ~InputFile() { close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

// A folder of this process's, in memory where there is such a disk, with one file that each input replaces.
class InputFolder {
 public:
  explicit InputFolder(std::string name) : name_(std::move(name)) {
    const bool has_memory = std::filesystem::is_directory("/dev/shm");
    std::string pattern = (has_memory ? std::string("/dev/shm") : std::filesystem::temp_directory_path().string());
    pattern += "/fsdp-fuzz-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) abort();
    path_ = pattern;
  }
  ~InputFolder() { std::filesystem::remove_all(path_); }
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void replace(std::string_view input) const {
    std::ofstream(path_ / name_, std::ios::binary | std::ios::trunc)
        .write(input.data(), static_cast<std::streamsize>(input.size()));
  }

 private:
  std::string name_;
  std::filesystem::path path_;
};

}  // namespace fsdp::fuzz
